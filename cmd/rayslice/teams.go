package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"slices"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
)

//go:embed teams.yaml
var demoTeams []byte

// roster is the teams and people an operator wants to exist.
type roster struct {
	Teams  []rosterTeam   `json:"teams"`
	People []rosterPerson `json:"people"`
}

type rosterTeam struct {
	Name       string `json:"name"`        // DNS label
	Namespace  string `json:"namespace"`   // Kubernetes namespace its clusters run in
	LimitGiB   int    `json:"limit_gib"`   // GiB of slices at the same time
	LimitCards int    `json:"limit_cards"` // whole cards at the same time

	Rules *rayslice.Rules `json:"rules"` // which requests start without a lead; left out: whatever the limit allows
}

type rosterPerson struct {
	Name  string                   `json:"name"`
	Email string                   `json:"email"` // who this is; two people cannot share one
	Admin bool                     `json:"admin"`
	Roles map[string]rayslice.Role `json:"roles"` // team name → member or lead
}

// loadRoster reads teams and people from the file, or the demo's own when path is empty. Every fault is named by file
// and field.
func loadRoster(path string) (roster, error) {
	var r roster
	err := readYAML(path, "teams.yaml", demoTeams, &r, func() error { return r.check() })
	return r, err
}

// roster returns the configured teams and people. People without persona sign-in are a mistake: nobody could be one of them,
// yet a team would seem to have its leads.
func (c Config) roster() (roster, error) {
	r, err := loadRoster(c.Teams)
	for i, t := range r.Teams {
		if bad := (rayslice.TeamDraft{Name: t.Name, Namespace: t.Namespace}).Validate(c.reserved()...); err == nil && bad != nil {
			err = fmt.Errorf("%s: teams[%d]: %w", cmp.Or(c.Teams, "teams.yaml"), i, bad)
		}
	}
	if err == nil && len(r.People) > 0 && !c.PersonaSignIn {
		err = fmt.Errorf("%s: people are for trying out with --persona-sign-in; remove them: people come with their first sign-in (docs/configuration.md, Teams and people)", c.Teams)
	}
	return r, err
}

// reserved are namespaces that no team may have, beside Kubernetes' own.
func (c Config) reserved() []string { return []string{c.Namespace, c.KubeRayNamespace} }

// seed returns the roster as the store takes it.
func (r roster) seed() store.Seed {
	var seed store.Seed
	for _, t := range r.Teams {
		seed.Teams = append(seed.Teams, store.SeedTeam(t))
	}
	for _, p := range r.People {
		seed.Users = append(seed.Users, store.SeedUser(p))
	}
	return seed
}

func (r roster) check() error {
	var f faults
	names, namespaces, emails := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, team := range r.Teams {
		at := fmt.Sprintf("teams[%d].", i)
		f.unless(dnsLabel.MatchString(team.Name) && !names[team.Name], "%sname: %q is not lower-case letters, digits and dashes, or stands twice", at, team.Name)
		f.unless(dnsLabel.MatchString(team.Namespace) && !namespaces[team.Namespace], "%snamespace: %q is not lower-case letters, digits and dashes, or stands twice", at, team.Namespace)
		f.unless(team.LimitGiB >= 0, "%slimit_gib: must not be negative, is %d", at, team.LimitGiB)
		f.unless(team.LimitCards >= 0, "%slimit_cards: must not be negative, is %d", at, team.LimitCards)
		names[team.Name], namespaces[team.Namespace] = true, true
	}
	for i, person := range r.People {
		at := fmt.Sprintf("people[%d].", i)
		f.unless(person.Name != "", "%sname: is missing", at)
		f.unless(validEmail(person.Email) && !emails[person.Email], "%semail: %q is not an address, or stands twice", at, person.Email)
		emails[person.Email] = true
		f.roles(at, person.Roles, names)
	}
	return errors.Join(f...)
}

func (f *faults) roles(at string, roles map[string]rayslice.Role, teams map[string]bool) {
	for _, team := range slices.Sorted(maps.Keys(roles)) {
		f.unless(teams[team], "%sroles.%s: no such team in this file", at, team)
		f.unless(roles[team] == rayslice.RoleMember || roles[team] == rayslice.RoleLead, "%sroles.%s: %q is neither member nor lead", at, team, roles[team])
	}
}

func validEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return err == nil && address.Address == text
}
