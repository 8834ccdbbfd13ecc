package main

import (
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
)

// TestDemoRoster expects what the demo's story needs: someone who asks, someone who leads, someone of another team and
// an admin, and room for the first request.
func TestDemoRoster(t *testing.T) {
	r, err := loadRoster("")
	if err != nil {
		t.Fatal(err)
	}
	if team := r.Teams[0]; team.Name != "vision" || team.LimitGiB < 2*8 {
		t.Errorf("the first team is %+v, want vision with room for 2 × 8 GiB", team)
	}
	var member, lead, stranger, admin bool
	for _, person := range r.People {
		member = member || person.Roles["vision"] == rayslice.RoleMember
		lead = lead || person.Roles["vision"] == rayslice.RoleLead
		stranger = stranger || person.Roles["vision"] == "" && len(person.Roles) > 0
		admin = admin || person.Admin
	}
	if !member || !lead || !stranger || !admin {
		t.Errorf("member %v, lead %v, stranger %v, admin %v: want all", member, lead, stranger, admin)
	}
}

// TestReservedNamespaces keeps teams out of the portal's, KubeRay's and Kubernetes' own namespaces.
func TestReservedNamespaces(t *testing.T) {
	for _, namespace := range []string{"rayslice-here", "kuberay-there", "kube-system", "default"} {
		c := Config{Namespace: "rayslice-here", KubeRayNamespace: "kuberay-there", Teams: write(t, "teams: [{name: vision, namespace: "+namespace+", limit_gib: 96}]")}
		if _, err := c.roster(); err == nil || !strings.Contains(err.Error(), "teams[0]") || !strings.Contains(err.Error(), "namespace") {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

func TestRosterRefusals(t *testing.T) {
	const good = `
teams: [{name: vision, namespace: team-vision, limit_gib: 96}]
people: [{name: Mei, email: mei@x.example, roles: {vision: member}}]
`
	if _, err := loadRoster(write(t, good)); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ from, to, want string }{
		"an unknown field":         {"limit_gib", "limit", `unknown field "teams[0].limit"`},
		"a limit below 0":          {"96", "-1", "teams[0].limit_gib: must not be negative"},
		"cards below 0":            {"96", "96, limit_cards: -1", "teams[0].limit_cards: must not be negative"},
		"a namespace with a dot":   {"team-vision", "team.vision", "teams[0].namespace"},
		"a team in capitals":       {"name: vision", "name: Vision", "teams[0].name"},
		"a namespace shared":       {"teams: [", "teams: [{name: nlp, namespace: team-vision}, ", "teams[1].namespace"},
		"a nameless person":        {"name: Mei", `name: ""`, "people[0].name: is missing"},
		"no address":               {"mei@x.example", "mei", "people[0].email"},
		"an address shared":        {"people: [", "people: [{name: Other, email: mei@x.example}, ", "people[1].email"},
		"a role that is not one":   {"member", "boss", `people[0].roles.vision: "boss" is neither member nor lead`},
		"a role in no team":        {"{vision: member}", "{speech: member}", "people[0].roles.speech: no such team"},
		"text where a list stands": {"people: [", "people: nobody #", "people: must be a list, is string"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := loadRoster(write(t, strings.Replace(good, test.from, test.to, 1)))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestPeopleNeedPersonaSignIn keeps people whom nobody can be from standing in for those who could decide.
func TestPeopleNeedPersonaSignIn(t *testing.T) {
	const teams = "teams: [{name: vision, namespace: team-vision, limit_gib: 96}]\n"
	with := write(t, teams+"people: [{name: Mei, email: mei@x.example, roles: {vision: lead}}]\n")
	for name, test := range map[string]struct {
		config Config
		ok     bool
	}{
		"people to try out with":      {Config{Teams: with, PersonaSignIn: true}, true},
		"people whom nobody can be":   {Config{Teams: with}, false},
		"teams only":                  {Config{Teams: write(t, teams)}, true},
		"the file that is shipped":    {Config{Teams: "../../deploy/teams.yaml"}, true},
		"the one shipped for a start": {Config{Teams: "../../deploy/personas.yaml", PersonaSignIn: true}, true},
	} {
		r, err := test.config.roster()
		if (err == nil) != test.ok || len(r.Teams) != 1 {
			t.Errorf("%s: %d teams, %v", name, len(r.Teams), err)
		}
		if err != nil && !strings.Contains(err.Error(), "remove them") {
			t.Errorf("%s: %v names no remedy", name, err)
		}
	}
}
