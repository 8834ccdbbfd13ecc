package store_test

import (
	"slices"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

func mustToken(t testing.TB, s *store.Store, u rayslice.User, d rayslice.TokenDraft) (string, rayslice.Token) {
	t.Helper()
	d.Normalize()
	secret, made, err := s.CreateToken(t.Context(), u, d)
	if err != nil {
		t.Fatal(err)
	}
	return secret, made
}

// TestTokens makes a token that acts for its owner, within its scopes, until it is revoked, over, or the owner disabled.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	look := func(secret string) (rayslice.User, error) {
		return s.Token(ctx, rayslice.System, rayslice.HashToken(secret))
	}
	secret, made := mustToken(t, s, p.Lea, rayslice.TokenDraft{Name: "ci", Scopes: []rayslice.Scope{rayslice.ScopeRequest}, Days: 90})
	if !made.UsedAt.IsZero() || made.Prefix != rayslice.PublicPrefix(secret) {
		t.Errorf("made %+v", made)
	}
	as, err := look(secret)
	if err != nil || as.ID != p.Lea.ID || as.TokenID != made.ID || as.Roles["vision"] != rayslice.RoleMember || as.CanStop(rayslice.Request{Team: "vision", Owner: p.Lea}) {
		t.Fatalf("stands for %+v, %v", as, err)
	}
	mine, err := s.Tokens(ctx, p.Lea)
	if err != nil || len(mine) != 1 || mine[0].UsedAt.IsZero() || !slices.Equal(mine[0].Scopes, []rayslice.Scope{rayslice.ScopeRead, rayslice.ScopeRequest}) {
		t.Errorf("tokens %+v, %v", mine, err)
	}
	_, _, err = s.CreateToken(ctx, as, rayslice.TokenDraft{Name: "child", Days: 1, Scopes: []rayslice.Scope{rayslice.ScopeRead}})
	wantKind(t, err, rayslice.KindForbidden)
	_, _, err = s.CreateToken(ctx, p.Ada, rayslice.TokenDraft{Name: "x", Team: "speech", Days: 1, Scopes: []rayslice.Scope{rayslice.ScopeRead}})
	wantField(t, err, "team", rayslice.CodeTeamUnknown)
	wantKind(t, s.EndSessions(ctx, as, as.ID), rayslice.KindForbidden)

	if theirs, err := s.PersonTokens(ctx, p.Root, p.Lea.ID); err != nil || len(theirs) != 1 {
		t.Errorf("an admin sees %+v, %v", theirs, err)
	}
	_, err = s.PersonTokens(ctx, p.Ada, p.Lea.ID)
	wantKind(t, err, rayslice.KindForbidden)

	_, err = look(rayslice.NewToken())
	wantKind(t, err, rayslice.KindNotFound)
	wantKind(t, s.RevokeToken(ctx, p.Ada, p.Lea.ID, made.ID), rayslice.KindNotFound)
	wantKind(t, s.RevokeToken(ctx, p.Root, p.Bob.ID, made.ID), rayslice.KindNotFound)
	for range 2 {
		if err := s.RevokeToken(ctx, p.Root, p.Lea.ID, made.ID); err != nil {
			t.Fatal(err)
		}
	}
	_, err = look(secret)
	wantKind(t, err, rayslice.KindNotFound)

	secret, made = mustToken(t, s, p.Ada, rayslice.TokenDraft{Name: "own", Team: "vision", Days: 1})
	storetest.Exec(t, `UPDATE users SET disabled = true WHERE id = $1`, p.Ada.ID)
	_, err = look(secret)
	wantKind(t, err, rayslice.KindNotFound)
	storetest.Exec(t, `UPDATE users SET disabled = false`)
	storetest.Exec(t, `UPDATE tokens SET ends_at = now() WHERE id = $1`, made.ID)
	_, err = look(secret)
	wantKind(t, err, rayslice.KindNotFound)
}

// TestTokenApproves is B113 and B116: a token never approves, a lead's own least of all, and the refusal is recorded.
func TestTokenApproves(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	needLead(t, s, p)
	for who, u := range map[string]rayslice.User{"its owner's request": p.Ada, "a lead's own": p.Lea, "a stranger to the request": p.Bob} {
		owner := p.Ada
		if u.ID == p.Lea.ID {
			owner = p.Lea
		}
		id := mustCreate(t, s, owner, storetest.Draft(1, 4)).ID
		secret, made := mustToken(t, s, u, rayslice.TokenDraft{Name: who, Scopes: rayslice.Scopes(), Days: 1})
		as, err := s.Token(ctx, rayslice.System, rayslice.HashToken(secret))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.DecideRequest(ctx, as, id, rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: 1})
		if got := refusal(t, err, rayslice.KindForbidden).Code; got != "decide_by_token" {
			t.Errorf("%s: refused with %s", who, got)
		}
		after, err := s.Request(ctx, u, id)
		if err != nil || after.State != rayslice.StatePending {
			t.Errorf("%s: state %s, %v", who, after.State, err)
		}
		var via string
		storetest.Query(t, &via, `SELECT via FROM audit WHERE request_id = $1 AND action = 'refuse'`, id)
		if via != made.Prefix {
			t.Errorf("%s: recorded as by %q, want the token's prefix", who, via)
		}
	}
}

// TestApprovalWithoutRole is B115: somebody in no team sees no request and decides none.
func TestApprovalWithoutRole(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	needLead(t, s, p)
	id := mustCreate(t, s, p.Ada, storetest.Draft(1, 4)).ID
	nobody := mustSignIn(t, s, rayslice.Identity{Issuer: issuer, Subject: "1", Name: "Zoe"})
	_, err := s.DecideRequest(t.Context(), nobody, id, rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: 1})
	wantKind(t, err, rayslice.KindNotFound)
	after, err := s.Request(t.Context(), p.Ada, id)
	if err != nil || after.State != rayslice.StatePending {
		t.Errorf("state %s, %v", after.State, err)
	}
}

// TestTokenLimit keeps one person from making tokens without end.
func TestTokenLimit(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	for range 50 {
		mustToken(t, s, p.Ada, rayslice.TokenDraft{Name: "many", Days: 1})
	}
	_, _, err := s.CreateToken(t.Context(), p.Ada, rayslice.TokenDraft{Name: "more", Days: 1, Scopes: []rayslice.Scope{rayslice.ScopeRead}})
	wantKind(t, err, rayslice.KindConflict)
	mustToken(t, s, p.Bob, rayslice.TokenDraft{Name: "another's", Days: 1})
}
