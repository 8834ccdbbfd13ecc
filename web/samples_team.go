package web

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

var sampleAdmin = rayslice.User{ID: 4, Name: "Sam Rivera", Email: "sam@example.org", Admin: true}

// sampleTeam is a team's page with something in every part.
func sampleTeam(f Frame) TeamPage {
	now := f.Now
	rows := []ClusterRow{SampleRow(now, rayslice.StateReady), SampleRow(now, rayslice.StatePending)}
	rows[1].Request.ID, rows[1].Request.Owner = "sample000002", sampleLead
	raise := &rayslice.Grant{ID: 12, Team: "vision", Charge: rayslice.Charge{GiB: 16}, Since: now.AddDate(0, 0, -2), Until: EndOfDay(now.AddDate(0, 0, 5)), By: sampleAdmin.Name, Note: "Camera-ready runs of the March paper"}
	return TeamPage{
		Frame: at(f, "/teams/vision"), Team: rayslice.Team{Name: "vision", Namespace: "team-vision"}, Quota: sampleQuotas()[1], Use: sampleTeamUse(now),
		Rows: rows, More: true, Catalogue: SampleCatalogue(), Rules: sampleRules(), Members: sampleMembers(now),
		Grants: []rayslice.Grant{
			*raise,
			{ID: 9, Team: "vision", Charge: rayslice.Charge{GiB: 80, Cards: 2}, Base: true, Since: now.AddDate(0, -1, 0), By: sampleAdmin.Name, Note: "Two A100 for the new cluster"},
			{ID: 7, Team: "vision", Charge: rayslice.Charge{GiB: 32}, Since: now.AddDate(0, -2, 0), Until: now.AddDate(0, -1, -9), Ended: now.AddDate(0, -1, -9), By: sampleAdmin.Name},
			{ID: 1, Team: "vision", Charge: rayslice.Charge{GiB: 64}, Base: true, Since: now.AddDate(0, -6, 0), Ended: now.AddDate(0, -1, 0), By: "rayslice"},
		},
		Raises: sampleRaises(now, raise),
		Raise:  Form{ID: "raise", Values: url.Values{}}, Deputy: Form{ID: "deputy", Values: url.Values{}},
		Base: rayslice.Charge{GiB: 80, Cards: 2}, Limit: Form{ID: "limit", Values: url.Values{"gib": {"80"}, "cards": {"2"}}},
	}
}

func sampleRules() rayslice.Rules {
	return rayslice.Rules{
		Auto: rayslice.Charge{GiB: 32}, AutoHours: 24, Member: &rayslice.Charge{GiB: 48, Cards: 1}, MaxHours: 72, EscalateMinutes: 240,
		Sizes: map[string][]int{"a10": {4, 8}, "t4": {}}, ImagePrefixes: []string{"registry.example.org/vision/"},
	}
}

func sampleMembers(now time.Time) []TeamMember {
	grant := func(role rayslice.Role, source rayslice.Source, until time.Time) rayslice.RoleGrant {
		return rayslice.RoleGrant{Team: "vision", Role: role, Source: source, Until: until}
	}
	return []TeamMember{
		{rayslice.User{ID: 2, Name: "Lin Wei", Email: "lin@example.org"}, []rayslice.RoleGrant{grant(rayslice.RoleMember, rayslice.SourceOIDC, time.Time{})}},
		{rayslice.User{ID: 3, Name: "Maya Okafor", Email: "maya@example.org"}, []rayslice.RoleGrant{grant(rayslice.RoleLead, rayslice.SourceOIDC, time.Time{})}},
		{rayslice.User{ID: 5, Name: "نور الهدى", Email: "noor@example.org"}, []rayslice.RoleGrant{
			grant(rayslice.RoleMember, rayslice.SourceSeed, time.Time{}), grant(rayslice.RoleLead, rayslice.SourceDeputy, EndOfDay(now.AddDate(0, 0, 4)))}},
		{rayslice.User{ID: 6, Name: "Old Account", Email: "old@example.org", Disabled: true}, []rayslice.RoleGrant{grant(rayslice.RoleMember, rayslice.SourceManual, time.Time{})}},
	}
}

func sampleRaises(now time.Time, granted *rayslice.Grant) []rayslice.Raise {
	return []rayslice.Raise{
		{ID: 31, Team: "vision", By: sampleLead, Charge: rayslice.Charge{GiB: 64, Cards: 1}, Purpose: "A sweep over 40 seeds for the rebuttal; we need it from Thursday on.", State: rayslice.RaisePending, AskedAt: now.Add(-3 * time.Hour)},
		{ID: 30, Team: "vision", By: sampleLead, Charge: rayslice.Charge{GiB: 32}, Until: EndOfDay(now.AddDate(0, 0, 9)), Purpose: "Camera-ready runs of the March paper", State: rayslice.RaiseGranted,
			AskedAt: now.AddDate(0, 0, -3), DecidedAt: now.AddDate(0, 0, -2), DecidedBy: sampleAdmin.Name, Answer: "Half of it until Saturday: speech needs the rest.", Grant: granted},
		{ID: 22, Team: "vision", By: sampleLead, Charge: rayslice.Charge{Cards: 8}, Purpose: "Pretraining", State: rayslice.RaiseDenied,
			AskedAt: now.AddDate(0, -1, 0), DecidedAt: now.AddDate(0, -1, 1), DecidedBy: sampleAdmin.Name, Answer: "There are eight in all."},
	}
}

func teamSamples() []Sample {
	as := func(u rayslice.User, change func(*TeamPage)) func(Frame) templ.Component {
		return func(f Frame) templ.Component {
			f.User = u
			p := sampleTeam(f)
			change(&p)
			return TeamView(p)
		}
	}
	return []Sample{
		{"team", as(sampleUser, func(*TeamPage) {})},
		{"team-many", as(sampleUser, func(p *TeamPage) {
			for i := range 40 {
				name := fmt.Sprintf("Person %d", i+1)
				p.Members = append(p.Members, TeamMember{User: rayslice.User{ID: int64(100 + i), Name: name, Email: fmt.Sprintf("p%d@example.org", i+1)}})
			}
		})},
		{"team-done", as(sampleLead, func(p *TeamPage) { p.Done = "raise_asked" })},
		{"team-lead", as(sampleLead, func(p *TeamPage) { p.RaisePages.Next = "/teams/vision?raises=22" })},
		{"team-admin", as(sampleAdmin, func(p *TeamPage) {
			p.GrantPages = Pages{First: "/teams/vision", Next: "/teams/vision?grants=1"}
		})},
		{"team-empty", as(sampleUser, func(p *TeamPage) {
			p.Rows, p.More, p.Raises, p.Grants, p.Members = nil, false, nil, p.Grants[1:2], p.Members[:1]
			p.Use = rayslice.TeamUse{Team: "vision"}
			p.Quota, p.Rules = rayslice.Quota{Team: "vision", Limit: rayslice.Charge{GiB: 96}}, rayslice.DefaultRules().Under(rayslice.Charge{GiB: 96})
		})},
		{"team-over-limit", as(sampleUser, func(p *TeamPage) {
			p.Quota = rayslice.Quota{Team: "vision", Limit: rayslice.Charge{GiB: 32, Cards: 1}, Used: rayslice.Charge{GiB: 56, Cards: 2}, Held: rayslice.Charge{GiB: 16}}
		})},
		{"team-strict", as(sampleUser, func(p *TeamPage) { p.Rules = rayslice.Rules{Member: &rayslice.Charge{}} })},
		{"team-confirm-withdraw", as(sampleLead, func(p *TeamPage) { p.Confirm = "withdraw-31" })},
		{"team-confirm-grant", as(sampleAdmin, func(p *TeamPage) { p.Confirm, p.Quota.Used.GiB = "grant-12", 90 })},
		{"team-confirm-deputy", as(sampleLead, func(p *TeamPage) { p.Confirm = "deputy-5" })},
		{"team-confirm-limit", as(sampleAdmin, func(p *TeamPage) {
			p.Confirm, p.Lowered = "limit", &rayslice.Charge{GiB: 16}
			p.Limit.Values = url.Values{"gib": {"16"}, "cards": {"0"}, "note": {"The A100 go to speech"}}
		})},
		{"team-rejected", as(sampleAdmin, func(p *TeamPage) {
			bad := func(fields ...rayslice.FieldError) *rayslice.Error { return problemOf(rayslice.Invalid(fields...)) }
			p.Raise = Form{ID: "raise", Values: url.Values{"gib": {"many"}, "until": {"2020-01-01"}}, Problem: bad(
				rayslice.FieldError{Field: "gib", Code: rayslice.CodeType, Args: Args{"want": "int", "got": "text"}},
				rayslice.FieldError{Field: "until", Code: rayslice.CodePast}, rayslice.FieldError{Field: "purpose", Code: rayslice.CodeRequired})}
			p.Limit.Problem = bad(rayslice.FieldError{Field: "gib", Code: rayslice.CodeRange, Args: Args{"min": 0, "max": rayslice.MaxLimit}})
			p.Deputy.Problem = bad(rayslice.FieldError{Field: "user", Code: "not_member", Args: Args{"team": "vision"}}, rayslice.FieldError{Field: "until", Code: CodeDay})
		})},
	}
}

func rulesSamples() []Sample {
	rules := func(change func(*RulesPage)) func(Frame) templ.Component {
		return func(f Frame) templ.Component {
			f.User = sampleLead
			p := RulesPage{Frame: at(f, "/teams/vision/rules"), Team: rayslice.Team{Name: "vision"}, Quota: sampleQuotas()[1], Catalogue: SampleCatalogue(),
				Form: Form{ID: "rules", Values: RulesValues(sampleRules(), SampleCatalogue())}}
			change(&p)
			return RulesView(p)
		}
	}
	return []Sample{
		{"rules", rules(func(*RulesPage) {})},
		{"rules-saved", rules(func(p *RulesPage) { p.Saved, p.Rules = true, sampleRules() })},
		{"rules-rejected", rules(func(p *RulesPage) {
			p.Form.Values.Set("auto.gib", "lots")
			p.Form.Values.Set("image_prefixes", "https://registry")
			p.Form.Problem = problemOf(rayslice.Invalid(
				rayslice.FieldError{Field: "auto.gib", Code: rayslice.CodeType, Args: Args{"want": "int", "got": "text"}},
				rayslice.FieldError{Field: "max_hours", Code: rayslice.CodeRange, Args: Args{"min": 0, "max": 168}},
				rayslice.FieldError{Field: "sizes.a10", Code: rayslice.CodeSizeNotOffered, Args: Args{"sizes": "4, 8, 16"}},
				rayslice.FieldError{Field: "sizes.h100", Code: rayslice.CodePoolUnknown, Args: Args{"pools": "a10, t4, a10c, a10s, a100"}},
				rayslice.FieldError{Field: "image_prefixes", Code: rayslice.CodeCharacters}))
		})},
	}
}

func sampleLog(now time.Time) []rayslice.AuditEntry {
	const id = "k5d2m7qxw3ab"
	return []rayslice.AuditEntry{
		{ID: 1208, At: now.Add(-2 * time.Minute), Actor: sampleUser.Name, Via: "rsl_7Kq2", Action: "refuse", RequestID: id, Team: "vision", Reason: rayslice.Reason{Code: "decide_by_token"}},
		{ID: 1209, At: now.Add(-3 * time.Minute), Actor: sampleUser.Name, Action: "refuse", Subject: sampleLead.Name, Reason: rayslice.Reason{Code: "admin_only", Args: Args{rayslice.ArgTried: "revoke_role"}}},
		{ID: 1210, At: now.Add(-5 * time.Minute), Actor: sampleUser.Name, Action: "set_webhook", Reason: rayslice.Reason{Code: "webhook_set", Args: Args{"host": "hooks.example.org"}}},
		{ID: 1207, At: now.Add(-20 * time.Minute), Actor: sampleLead.Name, Action: "approve", RequestID: id, Team: "vision", From: rayslice.StatePending, To: rayslice.StateApproved,
			Reason: rayslice.Reason{Code: rayslice.ReasonApproved, Args: Args{"who": sampleLead.Name, "answer": "Until Friday is fine."}}},
		{ID: 1206, At: now.Add(-4 * time.Hour), Actor: "rayslice", Action: "escalate", RequestID: id, Team: "vision", From: rayslice.StatePending, To: rayslice.StatePending,
			Reason: rayslice.Reason{Code: "escalated", Args: Args{"minutes": 240}}},
		{ID: 1205, At: now.Add(-9 * time.Hour), Actor: sampleAdmin.Name, Action: "grant_raise", Subject: sampleLead.Name, Team: "vision",
			Reason: rayslice.Reason{Code: rayslice.ReasonRaiseGranted, Args: Args{"gib": 16, "cards": 0, "until": "2026-03-07 23:59", "answer": "Half of it."}}},
		{ID: 1204, At: now.AddDate(0, 0, -1), Actor: "Eve\r\nRoot approved", Action: "create", RequestID: id, Team: "vision", To: rayslice.StatePending},
		{ID: 1203, At: now.AddDate(0, 0, -2), Actor: sampleLead.Name, Action: "name_deputy", Subject: "نور الهدى", Team: "vision", Reason: rayslice.Reason{Code: "deputy_named", Args: Args{"until": "2026-03-06"}}},
		{ID: 1201, At: now.AddDate(0, 0, -2), Actor: sampleLead.Name, Action: "set_rules", Team: "vision", Reason: rayslice.Reason{Code: "rules_set", Args: Args{"rules": sampleRules()}}},
		{ID: 1200, At: now.AddDate(0, 0, -2), Actor: sampleAdmin.Name, Action: "set_limit", Team: "vision",
			Reason: rayslice.Reason{Code: rayslice.ReasonLimitSet, Args: Args{"gib": 80, "cards": 2, "was_gib": 64, "was_cards": 0, "note": "Two A100 for the new cluster"}}},
		{ID: 1202, At: now.AddDate(0, 0, -2), Actor: strings.Repeat("Very long name ", 12), Action: "something_new", Team: strings.Repeat("x", 40)},
	}
}

func auditSamples() []Sample {
	log := func(f Frame) AuditPage {
		f.User = sampleAdmin
		return AuditPage{Frame: at(f, "/admin/audit"), Path: "/admin/audit", Filter: Form{ID: "filter", Values: url.Values{}}, Teams: []string{"speech", "vision"},
			Entries: sampleLog(f.Now), Pages: Pages{First: "/admin/audit", Next: "/admin/audit?after=1202"}, CSV: "/admin/audit.csv", Catalogue: SampleCatalogue()}
	}
	return []Sample{
		{"audit", func(f Frame) templ.Component { return AuditView(log(f)) }},
		{"audit-team", func(f Frame) templ.Component {
			p := log(f)
			p.User, p.Team, p.Path = sampleLead, "vision", "/teams/vision/audit"
			return AuditView(p)
		}},
		{"audit-nothing", func(f Frame) templ.Component {
			p := log(f)
			p.Entries, p.Pages = nil, Pages{}
			p.Filter.Values = url.Values{"actor": {"Eve"}, "action": {"refuse"}, "team": {"vision"}, "from": {"2026-03-01"}}
			return AuditView(p)
		}},
		{"audit-bad-filter", func(f Frame) templ.Component {
			p := log(f)
			p.Entries, p.Pages, p.CSV = nil, Pages{}, ""
			p.Filter.Values = url.Values{"from": {"yesterday"}}
			p.Filter.Problem = problemOf(rayslice.Invalid(rayslice.FieldError{Field: "from", Code: CodeDay}, rayslice.FieldError{Field: "after", Code: rayslice.CodeType, Args: Args{"want": "int"}}))
			return AuditView(p)
		}},
	}
}

func adminSamples() []Sample {
	admin := func(f Frame, path string) Frame {
		f.User = sampleAdmin
		return at(f, path)
	}
	return append([]Sample{
		{"admin", func(f Frame) templ.Component {
			late := SampleRow(f.Now, rayslice.StatePending).Request
			late.SentAt = f.Now.Add(-26 * time.Hour)
			return AdminView(AdminPage{Frame: admin(f, "/admin"), Raises: sampleRaises(f.Now, nil)[:1], MoreRaise: true, Late: []rayslice.Request{late}, MoreLate: true,
				Drifts: []QuotaDrift{{"vision", rayslice.Charge{GiB: 56, Cards: 1}, rayslice.Charge{GiB: 48, Cards: 1}}}, AuditOpen: true,
				Unmanaged: []rayslice.Unmanaged{
					{Team: "vision", Namespace: "team-vision", Object: "RayCluster/tuning-job-raycluster-x7k2p", Pods: 2, Charge: rayslice.Charge{GiB: 16}, CreatedAt: f.Now.Add(-3 * time.Hour)},
					{Team: "speech", Namespace: "team-speech", Object: "Pod/<img src=x onerror=alert(1)>", Pods: 1, Charge: rayslice.Charge{Cards: 1}, CreatedAt: f.Now.Add(-26 * time.Hour)},
				},
				Orphans: []rayslice.Orphan{{Namespace: "team-vision", Name: "rs-orphanorphan", RequestID: "orphanorphan", CreatedAt: f.Now.Add(-50 * time.Hour)}}})
		}},
		{"admin-quiet", func(f Frame) templ.Component { return AdminView(AdminPage{Frame: admin(f, "/admin")}) }},
		{"admin-teams", func(f Frame) templ.Component {
			quotas := sampleQuotas()
			return AdminTeamsView(AdminTeamsPage{Frame: admin(f, "/admin/teams"), Rows: []AdminTeamRow{
				{rayslice.Team{Name: "speech", Namespace: "team-speech"}, quotas[0]}, {rayslice.Team{Name: "vision", Namespace: "team-vision"}, quotas[1]},
				{rayslice.Team{Name: "robotics", Namespace: "team-robotics"}, rayslice.Quota{Limit: rayslice.Charge{GiB: 8}, Used: rayslice.Charge{GiB: 24}}},
			}, Pages: Pages{Next: "/admin/teams?cursor=x"}, Form: Form{ID: "team", Values: url.Values{}}})
		}},
		{"admin-teams-rejected", func(f Frame) templ.Component {
			return AdminTeamsView(AdminTeamsPage{Frame: admin(f, "/admin/teams"), Search: "robot", Form: Form{ID: "team", Values: url.Values{"name": {"Vision"}, "namespace": {"kube-system"}},
				Problem: problemOf(rayslice.Invalid(rayslice.FieldError{Field: "name", Code: rayslice.CodeTaken, Args: Args{"value": "Vision"}},
					rayslice.FieldError{Field: "namespace", Code: rayslice.CodeReservedNamespace, Args: Args{"name": "kube-system"}}))}})
		}},
		{"admin-raises", func(f Frame) templ.Component {
			return AdminRaisesView(AdminRaisesPage{Frame: admin(f, "/admin/raises"), State: "pending", Teams: []string{"speech", "vision"}, Raises: sampleRaises(f.Now, nil),
				Pages: Pages{First: "/admin/raises", Next: "/admin/raises?after=22"}})
		}},
		{"admin-raises-none", func(f Frame) templ.Component {
			return AdminRaisesView(AdminRaisesPage{Frame: admin(f, "/admin/raises"), Teams: []string{"speech", "vision"}})
		}},
	}, adminRaiseSamples(admin)...)
}

func adminRaiseSamples(admin func(Frame, string) Frame) []Sample {
	one := func(i int, change func(*AdminRaisePage)) func(Frame) templ.Component {
		return func(f Frame) templ.Component {
			raise := sampleRaises(f.Now, nil)[i]
			p := AdminRaisePage{Frame: admin(f, "/admin/raises/31"), Raise: raise, Quota: sampleQuotas()[1], Form: Form{ID: "decide", Values: RaiseDecisionValues(raise)}}
			change(&p)
			return AdminRaiseView(p)
		}
	}
	return []Sample{
		{"admin-raise", one(0, func(*AdminRaisePage) {})},
		{"admin-raise-own", one(0, func(p *AdminRaisePage) { p.May = problemOf(rayslice.Forbidden("raise_own")) })},
		{"admin-raise-decided", one(1, func(*AdminRaisePage) {})},
		{"admin-raise-rejected", one(0, func(p *AdminRaisePage) {
			p.Form.Values = url.Values{"gib": {"900"}, "cards": {"1"}, "until": {"2026-12-24"}}
			p.Form.Problem = problemOf(rayslice.Invalid(rayslice.FieldError{Field: "gib", Code: rayslice.CodeRange, Args: Args{"min": 0, "max": 64}},
				rayslice.FieldError{Field: "until", Code: rayslice.CodeLater, Args: Args{"until": "2026-03-11"}}, rayslice.FieldError{Field: "answer", Code: rayslice.CodeRequired}))
		})},
	}
}
