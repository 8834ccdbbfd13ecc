package web

import (
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// accountSamples are the pages of one's own account.
func accountSamples() []Sample {
	return []Sample{
		{"account", func(f Frame) templ.Component { return AccountView(sampleAccount(f)) }},
		{"account-fresh", func(f Frame) templ.Component {
			f.User.Roles = nil
			return AccountView(AccountPage{Frame: at(f, "/account"), Form: NewTokenDraft()})
		}},
		{"account-token-made", func(f Frame) templ.Component {
			p := sampleAccount(f)
			p.Secret = "rayslice_pat_SAMPLESAMPLESAMPLESAMPLESAAAAAAAA"
			return AccountView(p)
		}},
		{"account-token-refused", func(f Frame) templ.Component {
			p := sampleAccount(f)
			p.Form = rayslice.TokenDraft{Name: strings.Repeat("x", 90), Days: 7}
			p.Problem = problemOf(rayslice.Invalid(
				rayslice.FieldError{Field: "name", Code: rayslice.CodeTooLong, Args: Args{"max": 80}},
				rayslice.FieldError{Field: "team", Code: rayslice.CodeTeamUnknown}))
			return AccountView(p)
		}},
		{"account-token-limit", func(f Frame) templ.Component {
			p := sampleAccount(f)
			p.Problem = &rayslice.Error{Kind: rayslice.KindConflict, Code: "token_limit", Args: Args{"max": 50}}
			return AccountView(p)
		}},
		{"account-confirm", func(f Frame) templ.Component {
			p := sampleAccount(f)
			p.Confirm = "11"
			return AccountView(p)
		}},
		{"account-sign-out", func(f Frame) templ.Component {
			p := sampleAccount(f)
			p.Confirm = "sessions"
			return AccountView(p)
		}},
	}
}

func sampleAccount(f Frame) AccountPage {
	day := 24 * time.Hour
	read := []rayslice.Scope{rayslice.ScopeRead}
	return AccountPage{
		Frame: at(f, "/account"), Form: NewTokenDraft(), Grants: sampleRoles(f.Now),
		Tokens: []rayslice.Token{
			{ID: 11, Name: "notebook", Prefix: "rayslice_pat_K7QD", Team: "vision", Scopes: rayslice.Scopes(), CreatedAt: f.Now.Add(-3 * day), EndsAt: f.Now.Add(27 * day), UsedAt: f.Now.Add(-5 * time.Minute)},
			{ID: 10, Name: "nightly sweep 消融实验", Prefix: "rayslice_pat_2ABC", Scopes: rayslice.Scopes()[:2], CreatedAt: f.Now.Add(-60 * day), EndsAt: f.Now.Add(2 * day)},
			{ID: 9, Name: strings.Repeat("long-name-", 8), Prefix: "rayslice_pat_ZZ77", Scopes: read, EndsAt: f.Now.Add(-2 * day), UsedAt: f.Now.Add(-3 * day)},
			{ID: 8, Name: "lost laptop", Prefix: "rayslice_pat_MNOP", Scopes: read, EndsAt: f.Now.Add(9 * day), RevokedAt: f.Now.Add(-day)},
		},
	}
}

func sampleRoles(now time.Time) []rayslice.RoleGrant {
	return []rayslice.RoleGrant{
		{UserID: 2, Team: "speech", Role: rayslice.RoleLead, Source: rayslice.SourceManual, By: "Sam Rivera"},
		{UserID: 2, Team: "vision", Role: rayslice.RoleLead, Source: rayslice.SourceDeputy, By: "Maya Okafor", Until: now.Add(9 * 24 * time.Hour)},
		{UserID: 2, Team: "vision", Role: rayslice.RoleMember, Source: rayslice.SourceOIDC},
	}
}

// peopleSamples are an admin's pages of people.
func peopleSamples() []Sample {
	list := func(f Frame) PeoplePage {
		return PeoplePage{Frame: asAdmin(f, "/admin/people"), Teams: []string{"speech", "vision"}, People: samplePeople(f.Now)}
	}
	person := func(f Frame) PersonPage {
		return PersonPage{Frame: asAdmin(f, PersonPath(2)), Person: samplePeople(f.Now)[0], Tokens: sampleAccount(f).Tokens, Teams: []string{"speech", "vision"}, Role: rayslice.RoleMember}
	}
	return []Sample{
		{"people", func(f Frame) templ.Component {
			p := list(f)
			p.First, p.Next = "/admin/people", "/admin/people?cursor=9"
			return PeopleView(p)
		}},
		{"people-nobody-matches", func(f Frame) templ.Component {
			p := list(f)
			p.People, p.Filter = nil, PeopleFilter{Search: "zz", Team: "vision", Role: rayslice.RoleLead, Disabled: true}
			return PeopleView(p)
		}},
		{"person", func(f Frame) templ.Component { return PersonView(person(f)) }},
		{"person-admin-by-config", func(f Frame) templ.Component {
			p := person(f)
			p.Person = samplePeople(f.Now)[3]
			return PersonView(p)
		}},
		{"person-disabled", func(f Frame) templ.Component {
			p := person(f)
			p.Person.User.Disabled, p.Person.Grants, p.Person.SeenAt = true, nil, time.Time{}
			return PersonView(p)
		}},
		{"person-confirm", func(f Frame) templ.Component {
			p := person(f)
			p.Confirm = grantKey(p.Person.Grants[0])
			return PersonView(p)
		}},
		{"person-last-admin", func(f Frame) templ.Component {
			p := person(f)
			p.Problem = &rayslice.Error{Kind: rayslice.KindConflict, Code: "last_admin"}
			return PersonView(p)
		}},
		{"person-role-refused", func(f Frame) templ.Component {
			p := person(f)
			p.Role = rayslice.RoleLead
			p.Problem = problemOf(rayslice.Invalid(rayslice.FieldError{Field: "team", Code: "team_missing"}))
			return PersonView(p)
		}},
	}
}

// asAdmin returns the frame of an admin's page.
func asAdmin(f Frame, path string) Frame {
	f.User = rayslice.User{ID: 4, Name: "Sam Rivera", Email: "sam@example.org", Admin: true}
	return at(f, path)
}

func samplePeople(now time.Time) []Person {
	lead := []rayslice.RoleGrant{{Team: "vision", Role: rayslice.RoleLead, Source: rayslice.SourceOIDC}}
	return []Person{
		{User: sampleUser, Provider: "id.example.org", SeenAt: now.Add(-20 * time.Minute), Grants: sampleRoles(now)},
		{User: sampleLead, Provider: "id.example.org", SeenAt: now.Add(-50 * time.Hour), Grants: lead},
		{User: rayslice.User{ID: 7, Name: "نور الهدى", Email: strings.Repeat("long.address.", 5) + "@example.org", Disabled: true}, Provider: "id.example.org", SeenAt: now.Add(-900 * time.Hour)},
		{User: rayslice.User{ID: 4, Name: "Sam Rivera", Email: "sam@example.org", Admin: true}, Grants: []rayslice.RoleGrant{{Role: rayslice.RoleAdmin, Source: rayslice.SourceConfig}}},
	}
}
