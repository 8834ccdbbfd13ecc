package web

import (
	"net/url"
	"strconv"
	"time"

	"github.com/rayslice/rayslice"
)

// Person is somebody as an admin sees them.
type Person struct {
	User     rayslice.User
	Provider string    // host of the identity provider; "" = a seeded persona
	SeenAt   time.Time // last sign-in; zero = never
	Grants   []rayslice.RoleGrant
}

// PeopleFilter narrows the list of people. Its fields are the query parameters of GET /admin/people.
type PeopleFilter struct {
	Search   string        // ?q= part of a name or address
	Team     string        // ?team=
	Role     rayslice.Role // ?role=
	Disabled bool          // ?disabled=1
}

// PeoplePage lists people for an admin.
type PeoplePage struct {
	Frame
	Pages
	Filter PeopleFilter
	Teams  []string
	People []Person
}

// PersonPage is one person for an admin.
// Forms, all to /admin/people/ID/…: POST roles with team and role; POST roles/revoke with team, role and source;
// POST disable, enable, sessions/end, tokens/ID/revoke.
type PersonPage struct {
	Frame
	Person  Person
	Tokens  []rayslice.Token
	Teams   []string
	Team    string          // of the form to give a role, as it came back
	Role    rayslice.Role   // likewise
	Problem *rayslice.Error // why the form came back, or what did not work; nil = nothing
	Confirm string          // ?confirm=: "disable", "sessions", "token-ID", or a grant by grantKey
}

// PersonPath returns the address of a person's page.
func PersonPath(id int64) string { return "/admin/people/" + strconv.FormatInt(id, 10) }

// grantKey names one grant in addresses and ids.
func grantKey(g rayslice.RoleGrant) string {
	return string(g.Role) + "-" + string(g.Source) + "-" + g.Team
}

// keptBy returns where a grant can be changed, as no admin can take it back here; "" = they can.
func keptBy(l *Localizer, g rayslice.RoleGrant) string {
	switch g.Source {
	case rayslice.SourceOIDC:
		return l.T("person_group_only")
	case rayslice.SourceConfig:
		return l.T("person_config_only")
	}
	return ""
}

// grantSummary returns a person's roles in a list, each once.
func grantSummary(l *Localizer, grants []rayslice.RoleGrant) []string {
	var texts []string
	seen := map[string]bool{}
	for _, g := range grants {
		if text := roleText(l, g); !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	return texts
}

// accountText returns where somebody signs in.
func accountText(l *Localizer, p Person) string {
	if p.Provider == "" {
		return l.T("person_persona")
	}
	return l.T("person_provider", Args{"Host": p.Provider})
}

func (p PersonPage) confirmPath(what string) string {
	return PersonPath(p.Person.User.ID) + "?" + url.Values{"confirm": {what}}.Encode()
}

// confirmations returns every question this page may ask.
func (p PersonPage) confirmations() []confirmation {
	l, path, who := p.Locale, PersonPath(p.Person.User.ID), Args{"Name": p.Person.User.Name}
	all := []confirmation{
		{id: "sessions", heading: l.T("person_sessions_confirm", who), text: l.T("person_sessions_text"), button: l.T("person_sessions_end"), action: path + "/sessions/end"},
	}
	if !p.Person.User.Disabled {
		all = append(all, confirmation{id: "disable", heading: l.T("person_disable_confirm", who), text: l.T("person_disable_text"), button: l.T("person_disable"), action: path + "/disable"})
	}
	for _, g := range p.Person.Grants {
		if keptBy(p.Locale, g) == "" {
			all = append(all, confirmation{
				id: grantKey(g), heading: l.T("person_revoke_confirm", Args{"Name": p.Person.User.Name, "Role": roleText(l, g)}), text: l.T("person_revoke_text"),
				button: l.T("person_revoke"), action: path + "/roles/revoke",
				hidden: [][2]string{{"team", g.Team}, {"role", string(g.Role)}, {"source", string(g.Source)}},
			})
		}
	}
	for _, t := range p.Tokens {
		if t.Live(p.Now) {
			all = append(all, confirmation{id: "token-" + tokenID(t), heading: l.T("token_revoke_confirm", Args{"Name": t.Name}), text: l.T("token_revoke_text"),
				button: l.T("token_revoke"), action: path + "/tokens/" + tokenID(t) + "/revoke"})
		}
	}
	for i := range all {
		all[i].open, all[i].back = all[i].id == p.Confirm, path
	}
	return all
}
