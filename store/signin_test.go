package store_test

import (
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

const issuer = "https://id.example"

func mustSignIn(t testing.TB, s *store.Store, id rayslice.Identity) rayslice.User {
	t.Helper()
	u, err := s.SignIn(t.Context(), rayslice.System, id)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func leads(team string) []rayslice.RoleGrant {
	return []rayslice.RoleGrant{{Team: team, Role: rayslice.RoleLead}}
}

// TestSignIn knows people by issuer and subject only, and follows their name.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	first := mustSignIn(t, s, rayslice.Identity{Issuer: issuer, Subject: "1", Name: "Zoe", Email: "ada@example.org", Roles: leads("vision")})
	if first.ID == p.Ada.ID || !first.CanLead("vision") {
		t.Errorf("signed in as %+v", first)
	}
	renamed := mustSignIn(t, s, rayslice.Identity{Issuer: issuer, Subject: "1", Name: "Zoe B", Email: "zoe@example.org", Roles: leads("vision")})
	if renamed.ID != first.ID || renamed.Name != "Zoe B" || renamed.Email != "zoe@example.org" {
		t.Errorf("came back as %+v", renamed)
	}
	for what, id := range map[string]rayslice.Identity{
		"another subject": {Issuer: issuer, Subject: "2", Name: "Zoe", Email: "zoe@example.org"},
		"another issuer":  {Issuer: "https://other.example", Subject: "1", Name: "Zoe", Email: "zoe@example.org"},
	} {
		if other := mustSignIn(t, s, id); other.ID == first.ID || len(other.Roles) != 0 {
			t.Errorf("%s became %+v", what, other)
		}
	}
	storetest.Exec(t, `UPDATE users SET disabled = true WHERE id = $1`, first.ID)
	_, err := s.SignIn(t.Context(), rayslice.System, rayslice.Identity{Issuer: issuer, Subject: "1", Name: "New"})
	if got := refusal(t, err, rayslice.KindForbidden); got.Code != "user_disabled" {
		t.Errorf("refused with %v", got)
	}
	if boss := mustSignIn(t, s, rayslice.Identity{Issuer: issuer, Subject: "3", Name: "Boss", Admin: true}); !boss.CanAdmin() {
		t.Error("the operator's own admin is none")
	}
}

// TestSignInSyncsItsOwnRoles is B124 and B125: the provider changes its own grants only, and none when it is silent.
func TestSignInSyncsItsOwnRoles(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	id := rayslice.Identity{Issuer: issuer, Subject: "1", Name: "Zoe"}
	with := func(roles []rayslice.RoleGrant) rayslice.User {
		id.Roles = roles
		return mustSignIn(t, s, id)
	}
	zoe := with(append(leads("vision"), rayslice.RoleGrant{Role: rayslice.RoleAdmin}, rayslice.RoleGrant{Team: "no-such", Role: rayslice.RoleLead}))
	if !zoe.CanAdmin() || len(zoe.Roles) != 1 {
		t.Errorf("roles %+v", zoe)
	}
	if err := s.GrantRole(ctx, p.Root, zoe.ID, "speech", rayslice.RoleMember); err != nil {
		t.Fatal(err)
	}
	err := s.RevokeRole(ctx, p.Root, rayslice.RoleGrant{UserID: zoe.ID, Team: "vision", Role: rayslice.RoleLead, Source: rayslice.SourceOIDC})
	if got := refusal(t, err, rayslice.KindConflict).Code; got != "role_from_oidc" {
		t.Errorf("refused with %s", got)
	}
	if zoe = with(nil); !zoe.CanAdmin() || !zoe.CanLead("vision") || !zoe.MemberOf("speech") {
		t.Errorf("without a groups claim: %+v", zoe)
	}
	if zoe = with([]rayslice.RoleGrant{}); zoe.Admin || zoe.MemberOf("vision") || !zoe.MemberOf("speech") {
		t.Errorf("with an empty one: %+v", zoe)
	}
	var rows int
	storetest.Query(t, &rows, `SELECT count(*) FROM audit WHERE subject = 'Zoe' AND action IN ('grant_role', 'revoke_role')`)
	if rows != 5 {
		t.Errorf("%d changes are recorded, want 2 by groups, 1 by hand, 2 taken back", rows)
	}
}

// TestAdminsOfTheSettings are admins while they stand in the setting: nobody takes that by hand, and dropping them does.
func TestAdminsOfTheSettings(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	p := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	ctx := t.Context()
	for name, roles := range map[string][]rayslice.RoleGrant{
		"whose provider is silent about groups": nil,
		"who is in no group":                    {},
		"whose group makes them a lead":         leads("vision"),
	} {
		id := rayslice.Identity{Issuer: issuer, Subject: name, Name: "Boss", Admin: true, Roles: roles}
		boss := mustSignIn(t, s, id)
		if !boss.CanAdmin() {
			t.Errorf("one %s is no admin", name)
		}
		grant := rayslice.RoleGrant{UserID: boss.ID, Role: rayslice.RoleAdmin, Source: rayslice.SourceConfig}
		if got := refusal(t, s.RevokeRole(ctx, p.Root, grant), rayslice.KindConflict).Code; got != "role_from_config" {
			t.Errorf("taking it by hand is refused with %s", got)
		}
		id.Admin = false
		if got := mustSignIn(t, s, id); got.Admin || got.CanLead("vision") != (len(roles) > 0) {
			t.Errorf("one %s, dropped from the setting: admin %v, roles %v", name, got.Admin, got.Roles)
		}
		if err := s.GrantRole(ctx, p.Root, boss.ID, "", rayslice.RoleAdmin); err != nil {
			t.Fatal(err)
		}
		if got := mustSignIn(t, s, id); !got.Admin {
			t.Errorf("one %s, made an admin by hand, is none after the next sign-in", name)
		}
	}
}
