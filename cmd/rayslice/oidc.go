package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers"
)

// groupFile says what the groups of an identity provider mean here.
type groupFile struct {
	Groups []groupRoles `json:"groups"`
}

type groupRoles struct {
	Group string                   `json:"group"` // as the provider's claim says it
	Admin bool                     `json:"admin"`
	Roles map[string]rayslice.Role `json:"roles"` // team name → member or lead
}

func (g groupFile) check() error {
	var f faults
	names := map[string]bool{}
	for i, group := range g.Groups {
		at := fmt.Sprintf("groups[%d].", i)
		f.unless(group.Group != "" && !names[group.Group], "%sgroup: %q is empty or stands twice", at, group.Group)
		f.unless(group.Admin || len(group.Roles) > 0, "%sgroup: %q gives nothing: needs admin or roles", at, group.Group)
		names[group.Group] = true
		for _, team := range slices.Sorted(maps.Keys(group.Roles)) {
			role := group.Roles[team]
			f.unless(dnsLabel.MatchString(team), "%sroles.%s: is no name of a team", at, team)
			f.unless(role == rayslice.RoleMember || role == rayslice.RoleLead, "%sroles.%s: %q is neither member nor lead", at, team, role)
		}
	}
	return errors.Join(f...)
}

func (g groupFile) grants() map[string][]rayslice.RoleGrant {
	of := map[string][]rayslice.RoleGrant{}
	for _, group := range g.Groups {
		if group.Admin {
			of[group.Group] = append(of[group.Group], rayslice.RoleGrant{Role: rayslice.RoleAdmin})
		}
		for _, team := range slices.Sorted(maps.Keys(group.Roles)) {
			of[group.Group] = append(of[group.Group], rayslice.RoleGrant{Team: team, Role: group.Roles[team]})
		}
	}
	return of
}

// oidc returns how people sign in; nil when no identity provider is configured.
func (c Config) oidc() (*handlers.OIDC, error) {
	if c.OIDCIssuer == "" {
		return nil, nil
	}
	var file groupFile
	if c.OIDCGroups != "" {
		if err := readYAML(c.OIDCGroups, "", nil, &file, func() error { return file.check() }); err != nil {
			return nil, err
		}
	}
	return &handlers.OIDC{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: c.OIDCClientSecret, Scopes: c.OIDCScopes,
		GroupsClaim: c.OIDCGroupsClaim, Groups: file.grants(), Admins: c.OIDCAdmins, TrustEmail: c.OIDCTrustEmail,
	}, nil
}

// validIssuer reports whether text can be an issuer: https, or a provider on this very machine to try things out.
func validIssuer(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
