package store_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// scene is what a method can be called about: a request of Ada that waits, and other things of her team.
type scene struct {
	storetest.People
	*store.Store
	ctx     context.Context
	request rayslice.Request
	raise   rayslice.Raise
	token   rayslice.Token
	grant   int64
	notice  int64
	opening int64
}

func newScene(t *testing.T) scene {
	t.Helper()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	needLead(t, s, p)
	sc := scene{People: p, Store: s, ctx: t.Context(), request: mustCreate(t, s, p.Ada, storetest.Draft(1, 8))}
	var err error
	if sc.raise, err = s.AskRaise(t.Context(), p.Lea, rayslice.RaiseDraft{Team: "vision", Charge: rayslice.Charge{GiB: 8}, Purpose: "more"}); err != nil {
		t.Fatal(err)
	}
	if _, sc.token, err = s.CreateToken(t.Context(), p.Ada, rayslice.TokenDraft{Name: "notebook", Scopes: rayslice.Scopes(), Days: 1}); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, `INSERT INTO grants (team, gib, cards, base, until_at, granted_by) VALUES ('vision', 1, 0, false, now() + interval '1 hour', 'Root')`)
	storetest.Query(t, &sc.grant, `SELECT max(id) FROM grants`)
	storetest.Exec(t, `INSERT INTO notices (news_id, user_id, code, at) VALUES (1, $1, 'approved', now())`, p.Ada.ID)
	storetest.Query(t, &sc.notice, `SELECT max(id) FROM notices`)
	storetest.Exec(t, `INSERT INTO sessions (token, data, expiry) VALUES ('session', '', now() + interval '1 hour')`)
	storetest.Exec(t, `INSERT INTO openings (request_id, user_id, session, code, sealed, ends_at) VALUES ($1, $2, 'session', 'code', '', now() + interval '1 minute')`, sc.request.ID, p.Ada.ID)
	storetest.Exec(t, `INSERT INTO openings (request_id, user_id, session, sealed, ends_at) VALUES ($1, $2, 'session', '', now() + interval '1 minute')`, sc.request.ID, p.Ada.ID)
	storetest.Query(t, &sc.opening, `SELECT max(id) FROM openings`)
	storetest.Exec(t, `INSERT INTO openings (request_id, user_id, session, cookie, sealed, ends_at) VALUES ($1, $2, 'session', 'cookie', '', now() + interval '1 minute')`, sc.request.ID, p.Ada.ID)
	if err := s.SaveCluster(t.Context(), rayslice.System, rayslice.Cluster{RequestID: sc.request.ID, Exists: true, Service: "svc"}); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, `INSERT INTO verifications (run, request_id, pods) VALUES ('run', $1, '{a}')`, sc.request.ID)
	if err := s.FinishVerification(t.Context(), rayslice.System, "run", rayslice.Reason{}, []rayslice.Certificate{certificate("a", "node-1", rayslice.Enforced)}); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveUse(t.Context(), rayslice.System, []rayslice.Use{useOf(sc.request.ID, time.Now())}); err != nil {
		t.Fatal(err)
	}
	return sc
}

// right is one method of the Store: who may call it, and how many things the call shows or changes.
type right struct {
	may  func(scene) rayslice.User
	call func(scene, rayslice.User) (seen int, err error)
}

func one(err error) (int, error) { return 1, err }

// The people who may.
var (
	portal = func(scene) rayslice.User { return rayslice.System }
	owner  = func(sc scene) rayslice.User { return sc.Ada }
	lead   = func(sc scene) rayslice.User { return sc.Lea }
	admin  = func(sc scene) rayslice.User { return sc.Root }
)

// rights is every method that takes an actor. TestT32EveryMethodAsksWhoCalls fails for one that is missing here.
var rights = map[string]right{
	// The portal's own.
	"Attend": {portal, func(sc scene, a rayslice.User) (int, error) {
		names, err := sc.Attend(sc.ctx, a, "replica-1")
		return len(names), err
	}},
	"CleanNotices": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.CleanNotices(sc.ctx, a, time.Now())
		return one(err)
	}},
	"Counts": {portal, func(sc scene, a rayslice.User) (int, error) {
		states, _, err := sc.Counts(sc.ctx, a)
		return len(states), err
	}},
	"KnownRequests": {portal, func(sc scene, a rayslice.User) (int, error) {
		m, err := sc.KnownRequests(sc.ctx, a, []string{sc.request.ID})
		return len(m), err
	}},
	"Letter": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Letter(sc.ctx, a, sc.notice)
		return one(err)
	}},
	"KeepOpening": {portal, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.KeepOpening(sc.ctx, a, sc.opening, []byte("other cookie"), []byte("sealed")))
	}},
	"Opening": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Opening(sc.ctx, a, sc.request.ID, []byte("cookie"))
		return one(err)
	}},
	"TakeOpening": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.TakeOpening(sc.ctx, a, sc.request.ID, []byte("code"))
		return one(err)
	}},
	"LiveRequests": {portal, func(sc scene, a rayslice.User) (int, error) { _, err := sc.LiveRequests(sc.ctx, a); return one(err) }},
	"Mailed":       {portal, func(sc scene, a rayslice.User) (int, error) { return one(sc.Mailed(sc.ctx, a, sc.notice)) }},
	"Move": {portal, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.Move(sc.ctx, a, sc.request.ID, rayslice.StatePending, rayslice.StateApproved, rayslice.Reason{}, ""))
	}},
	"NamespaceLimits": {portal, func(sc scene, a rayslice.User) (int, error) {
		limits, err := sc.NamespaceLimits(sc.ctx, a)
		return len(limits), err
	}},
	"Occupants": {portal, func(sc scene, a rayslice.User) (int, error) { _, err := sc.Occupants(sc.ctx, a); return one(err) }},
	"Personas":  {portal, func(sc scene, a rayslice.User) (int, error) { u, err := sc.Personas(sc.ctx, a); return len(u), err }},
	"Posted":    {portal, func(sc scene, a rayslice.User) (int, error) { return one(sc.Posted(sc.ctx, a, sc.notice)) }},
	"NotPosted": {portal, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.NotPosted(sc.ctx, a, sc.notice, rayslice.Reason{Code: "away"}))
	}},
	"SaveCluster": {portal, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.SaveCluster(sc.ctx, a, rayslice.Cluster{RequestID: sc.request.ID}))
	}},
	"SaveUse": {portal, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.SaveUse(sc.ctx, a, []rayslice.Use{useOf(sc.request.ID, time.Now())}))
	}},
	"SaveFleet": {portal, func(sc scene, a rayslice.User) (int, error) { return one(sc.SaveFleet(sc.ctx, a, rayslice.Fleet{})) }},
	"Seed":      {portal, func(sc scene, a rayslice.User) (int, error) { return one(sc.Seed(sc.ctx, a, store.Seed{})) }},
	"SignIn": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.SignIn(sc.ctx, a, rayslice.Identity{Issuer: "https://id.example", Subject: "1", Name: "Zoe"})
		return one(err)
	}},
	"SignInPersona": {portal, func(sc scene, a rayslice.User) (int, error) { return one(sc.SignInPersona(sc.ctx, a, sc.Ada.ID)) }},
	"Spread": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Spread(sc.ctx, a, 1, rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", RequestID: sc.request.ID})
		return one(err)
	}},
	"Sweep":       {portal, func(sc scene, a rayslice.User) (int, error) { _, err := sc.Sweep(sc.ctx, a); return one(err) }},
	"TellIdle":    {portal, func(sc scene, a rayslice.User) (int, error) { _, err := sc.TellIdle(sc.ctx, a); return one(err) }},
	"TellEndings": {portal, func(sc scene, a rayslice.User) (int, error) { _, err := sc.TellEndings(sc.ctx, a); return one(err) }},
	"Token": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Token(sc.ctx, a, []byte("no such hash"))
		if rayslice.KindOf(err) == rayslice.KindNotFound && a.System {
			err = nil
		}
		return one(err)
	}},
	"UseTargets": {portal, func(sc scene, a rayslice.User) (int, error) { _, err := sc.UseTargets(sc.ctx, a); return one(err) }},
	"User":       {portal, func(sc scene, a rayslice.User) (int, error) { _, err := sc.User(sc.ctx, a, sc.Ada.ID); return one(err) }},
	"FinishVerification": {portal, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.FinishVerification(sc.ctx, a, "run", rayslice.Reason{}, nil))
	}},
	"StartVerification": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.StartVerification(sc.ctx, a, sc.request.ID, "run", nil)
		if rayslice.KindOf(err) == rayslice.KindConflict { // allowed, but it does not run
			err = nil
		}
		return one(err)
	}},
	"VerificationWork": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.VerificationWork(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"Work": {portal, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Work(sc.ctx, a, sc.request.ID)
		return one(err)
	}},

	// A team's.
	"Audit": {owner, func(sc scene, a rayslice.User) (int, error) {
		e, err := sc.Audit(sc.ctx, a, sc.request.ID)
		return len(e), err
	}},
	"Cluster": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Cluster(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"Observed": {owner, func(sc scene, a rayslice.User) (int, error) {
		m, err := sc.Observed(sc.ctx, a, []string{sc.request.ID})
		return len(m), err
	}},
	"CreateRequest": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.CreateRequest(sc.ctx, a, storetest.Draft(1, 1), "")
		return one(err)
	}},
	"Deciders": {owner, func(sc scene, a rayslice.User) (int, error) {
		n, err := sc.Deciders(sc.ctx, a, "vision", sc.Ada.ID)
		return len(n), err
	}},
	"EnterCluster": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.EnterCluster(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"OpenCluster": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.OpenCluster(sc.ctx, a, store.Opening{RequestID: sc.request.ID, Session: "session", Code: []byte("new code"), Sealed: []byte("sealed")})
		return one(err)
	}},
	"Grants": {owner, func(sc scene, a rayslice.User) (int, error) {
		g, err := sc.Grants(sc.ctx, a, "vision")
		return len(g), err
	}},
	"GrantHistory": {owner, func(sc scene, a rayslice.User) (int, error) {
		page, err := sc.GrantHistory(sc.ctx, a, "vision", 0, 10)
		return len(page.Grants), err
	}},
	"Members": {owner, func(sc scene, a rayslice.User) (int, error) {
		m, err := sc.Members(sc.ctx, a, "vision")
		return len(m), err
	}},
	"Quota": {owner, func(sc scene, a rayslice.User) (int, error) { _, err := sc.Quota(sc.ctx, a, "vision"); return one(err) }},
	"Raise": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Raise(sc.ctx, a, sc.raise.ID)
		return one(err)
	}},
	"Raises": {owner, func(sc scene, a rayslice.User) (int, error) {
		page, err := sc.Raises(sc.ctx, a, store.RaiseFilter{})
		return len(page.Raises), err
	}},
	"Request": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Request(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"AskVerification": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.AskVerification(sc.ctx, a, sc.request.ID)
		if rayslice.KindOf(err) == rayslice.KindConflict { // allowed, but it does not run
			err = nil
		}
		return one(err)
	}},
	"Certificates": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Certificates(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"StandingCertificates": {owner, func(sc scene, a rayslice.User) (int, error) {
		found, err := sc.StandingCertificates(sc.ctx, a, sc.request.ID)
		return len(found), err
	}},
	"Badge": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Badge(sc.ctx, a, rayslice.Cluster{RequestID: sc.request.ID})
		return one(err)
	}},
	"Verifications": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Verifications(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"Requests": {owner, func(sc scene, a rayslice.User) (int, error) {
		page, err := sc.Requests(sc.ctx, a, store.RequestFilter{})
		return len(page.Requests), err
	}},
	"ResendRequest": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.ResendRequest(sc.ctx, a, sc.request.ID, 1, storetest.Draft(1, 4), "")
		return one(err)
	}},
	"Rules": {owner, func(sc scene, a rayslice.User) (int, error) { _, err := sc.Rules(sc.ctx, a, "vision"); return one(err) }},
	"StopRequest": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.StopRequest(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"Team": {owner, func(sc scene, a rayslice.User) (int, error) { _, err := sc.Team(sc.ctx, a, "vision"); return one(err) }},
	"TeamUse": {owner, func(sc scene, a rayslice.User) (int, error) {
		use, err := sc.TeamUse(sc.ctx, a, "vision", time.Now().Add(-time.Hour), time.Now())
		return len(use.Points), err
	}},
	"Use": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Use(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"UseHistory": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.UseHistory(sc.ctx, a, sc.request.ID, time.Now().Add(-time.Hour), time.Now(), time.Minute)
		return one(err)
	}},
	"Uses": {owner, func(sc scene, a rayslice.User) (int, error) {
		m, err := sc.Uses(sc.ctx, a, []string{sc.request.ID})
		return len(m), err
	}},
	"WatchUse": {owner, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.WatchUse(sc.ctx, a, []string{sc.request.ID}, time.Now()))
	}},
	"WouldDecide": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.WouldDecide(sc.ctx, a, storetest.Draft(1, 1))
		return one(err)
	}},
	"WouldDecideAgain": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.WouldDecideAgain(sc.ctx, a, storetest.Draft(1, 1), sc.request.ID)
		return one(err)
	}},

	// A lead's.
	"Approval": {lead, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Approval(sc.ctx, a, sc.request.ID)
		return one(err)
	}},
	"Approvals": {lead, func(sc scene, a rayslice.User) (int, error) {
		page, err := sc.Approvals(sc.ctx, a, store.ApprovalFilter{})
		return len(page.Approvals), err
	}},
	"AskRaise": {lead, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.AskRaise(sc.ctx, a, rayslice.RaiseDraft{Team: "vision", Charge: rayslice.Charge{GiB: 1}, Purpose: "why"})
		return one(err)
	}},
	"AuditLog": {lead, func(sc scene, a rayslice.User) (int, error) {
		page, err := sc.AuditLog(sc.ctx, a, store.AuditFilter{Team: "vision"})
		return len(page.Entries), err
	}},
	"AuditChunk": {lead, func(sc scene, a rayslice.User) (int, error) {
		page, err := sc.AuditChunk(sc.ctx, a, store.AuditFilter{Team: "vision"})
		return len(page.Entries), err
	}},
	"DecideRequest": {lead, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.DecideRequest(sc.ctx, a, sc.request.ID, approveRevision(1))
		return one(err)
	}},
	"EndDeputy": {lead, func(sc scene, a rayslice.User) (int, error) { return one(sc.EndDeputy(sc.ctx, a, "vision", sc.Bob.ID)) }},
	"LeadOnly": {lead, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.LeadOnly(sc.ctx, a, "vision", "GET /teams/vision/rules"))
	}},
	"NameDeputy": {lead, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.NameDeputy(sc.ctx, a, "vision", sc.Bob.ID, time.Now().Add(time.Hour)))
	}},
	"SetRules": {lead, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.SetRules(sc.ctx, a, "vision", rayslice.Rules{}))
	}},
	"Waiting":       {lead, func(sc scene, a rayslice.User) (int, error) { return sc.Waiting(sc.ctx, a) }},
	"WithdrawRaise": {lead, func(sc scene, a rayslice.User) (int, error) { return one(sc.WithdrawRaise(sc.ctx, a, sc.raise.ID)) }},

	// An admin's.
	"AdminOnly": {admin, func(sc scene, a rayslice.User) (int, error) { return one(sc.AdminOnly(sc.ctx, a, "GET /admin")) }},
	"CreateTeam": {admin, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.CreateTeam(sc.ctx, a, rayslice.TeamDraft{Name: "robots", Namespace: "team-robots"}))
	}},
	"DecideRaise": {admin, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.DecideRaise(sc.ctx, a, sc.raise.ID, rayslice.RaiseDecision{Grant: true, Charge: rayslice.Charge{GiB: 8}})
		return one(err)
	}},
	"EndGrant": {admin, func(sc scene, a rayslice.User) (int, error) { return one(sc.EndGrant(sc.ctx, a, "vision", sc.grant)) }},
	"GrantRole": {admin, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.GrantRole(sc.ctx, a, sc.Bob.ID, "speech", rayslice.RoleMember))
	}},
	"PendingRaises": {admin, func(sc scene, a rayslice.User) (int, error) { return sc.PendingRaises(sc.ctx, a) }},
	"Person": {admin, func(sc scene, a rayslice.User) (int, error) {
		_, err := sc.Person(sc.ctx, a, sc.Ada.ID)
		return one(err)
	}},
	"PersonTokens": {admin, func(sc scene, a rayslice.User) (int, error) {
		n, err := sc.PersonTokens(sc.ctx, a, sc.Ada.ID)
		return len(n), err
	}},
	"RevokeRole": {admin, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.RevokeRole(sc.ctx, a, rayslice.RoleGrant{UserID: sc.Bob.ID, Team: "vision", Role: rayslice.RoleMember, Source: rayslice.SourceSeed}))
	}},
	"SetDisabled": {admin, func(sc scene, a rayslice.User) (int, error) { return one(sc.SetDisabled(sc.ctx, a, sc.Bob.ID, true)) }},
	"SetLimit": {admin, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.SetLimit(sc.ctx, a, "vision", rayslice.Charge{GiB: 1}, ""))
	}},
	"Users": {admin, func(sc scene, a rayslice.User) (int, error) {
		page, err := sc.Users(sc.ctx, a, store.PersonFilter{})
		return len(page.People), err
	}},

	// One's own.
	"CreateToken": {owner, func(sc scene, a rayslice.User) (int, error) {
		_, _, err := sc.CreateToken(sc.ctx, a, rayslice.TokenDraft{Name: "one", Team: "vision", Scopes: rayslice.Scopes(), Days: 1})
		return one(err)
	}},
	"EndSessions": {owner, func(sc scene, a rayslice.User) (int, error) { return one(sc.EndSessions(sc.ctx, a, sc.Ada.ID)) }},
	"Notices": {owner, func(sc scene, a rayslice.User) (int, error) {
		page, err := sc.Notices(sc.ctx, a, store.NoticeFilter{})
		return len(page.Notices), err
	}},
	"RevokeToken": {owner, func(sc scene, a rayslice.User) (int, error) {
		return one(sc.RevokeToken(sc.ctx, a, sc.Ada.ID, sc.token.ID))
	}},
	"RoleGrants": {owner, func(sc scene, a rayslice.User) (int, error) {
		g, err := sc.RoleGrants(sc.ctx, a)
		return countOf(g, "vision"), err
	}},
	"Tokens": {owner, func(sc scene, a rayslice.User) (int, error) { n, err := sc.Tokens(sc.ctx, a); return len(n), err }},
	"Unread": {owner, func(sc scene, a rayslice.User) (int, error) { return sc.Unread(sc.ctx, a) }},
	"Quotas": {owner, func(sc scene, a rayslice.User) (int, error) {
		q, err := sc.Quotas(sc.ctx, a)
		return countQuotas(q), err
	}},
	"Teams": {owner, func(sc scene, a rayslice.User) (int, error) { n, err := sc.Teams(sc.ctx, a); return countTeams(n), err }},
}

func countOf(grants []rayslice.RoleGrant, team string) int {
	return len(slices.DeleteFunc(grants, func(g rayslice.RoleGrant) bool { return g.Team != team }))
}

func countQuotas(quotas []rayslice.Quota) int {
	return len(slices.DeleteFunc(quotas, func(q rayslice.Quota) bool { return q.Team != "vision" }))
}

func countTeams(teams []rayslice.Team) int {
	return len(slices.DeleteFunc(teams, func(t rayslice.Team) bool { return t.Name != "vision" }))
}

// without are the methods that have nobody to ask for: they tell and change nothing of anybody. ownOnly act on the caller
// alone, whoever that is; anyone is for whoever is signed in.
var (
	without = []string{"Close", "Listen", "Ping", "AuditIsOpen", "LetPersonasIn", "KeepUse"}
	ownOnly = []string{"ReadNotices", "NotificationSettings", "SetNotificationSettings", "SetLanguage", "TryNotification", "QuotaDrift", "Refuse", "RefuseOnHost"}
	anyone  = []string{"Fleet", "FleetCards", "FleetProblems", "NodeVerdicts"}
)

// TestT32EveryMethodAsksWhoCalls calls every method of the Store as somebody of another team and as nobody: each refuses
// or shows nothing. A method without an actor, or without an entry above, fails (coder's rule).
func TestT32EveryMethodAsksWhoCalls(t *testing.T) {
	for method := range reflect.TypeFor[*store.Store]().Methods() {
		name := method.Name
		if slices.Contains(without, name) {
			continue
		}
		if method.Type.NumIn() < 3 || method.Type.In(2) != reflect.TypeFor[rayslice.User]() {
			t.Errorf("%s takes no actor", name)
			continue
		}
		if slices.Contains(ownOnly, name) || slices.Contains(anyone, name) {
			continue
		}
		r, ok := rights[name]
		if !ok {
			t.Errorf("%s has no entry", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc := newScene(t)
			strangers := map[string]rayslice.User{"a member of another team": sc.Sam, "nobody": {}, "a stranger with an account": {ID: sc.Sam.ID, Name: "Sam"}}
			if r.may(sc).System {
				strangers["an admin"], strangers["a lead"] = sc.Root, sc.Lea
			}
			for who, actor := range strangers {
				seen, err := r.call(sc, actor)
				if refused := rayslice.KindOf(err); refused != rayslice.KindNotFound && refused != rayslice.KindForbidden && refused != rayslice.KindInvalid && (err != nil || seen > 0) {
					t.Errorf("%s was not refused: %d, %v", who, seen, err)
				}
			}
			if seen, err := r.call(sc, r.may(sc)); err != nil || seen == 0 {
				t.Errorf("who may was refused: %d, %v", seen, err)
			}
		})
	}
}
