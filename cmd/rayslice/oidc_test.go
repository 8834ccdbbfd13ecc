package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

const goodGroups = `
groups:
  - group: gpu-admins
    admin: true
    roles: {vision: lead}
  - group: research
    roles: {vision: member, speech: member}
`

// TestOIDCConfiguration turns variables and the file of groups into what handlers want.
func TestOIDCConfiguration(t *testing.T) {
	if got, err := (Config{}).oidc(); got != nil || err != nil {
		t.Errorf("without an issuer: %v, %v", got, err)
	}
	line, err := parse(t, map[string]string{
		"RAYSLICE_OIDC_ISSUER": "https://id.example", "RAYSLICE_OIDC_CLIENT_ID": "rayslice", "RAYSLICE_OIDC_ADMINS": "7,8", "RAYSLICE_OIDC_GROUPS": write(t, goodGroups),
	}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	got, err := line.oidc()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]rayslice.RoleGrant{
		"gpu-admins": {{Role: rayslice.RoleAdmin}, {Team: "vision", Role: rayslice.RoleLead}},
		"research":   {{Team: "speech", Role: rayslice.RoleMember}, {Team: "vision", Role: rayslice.RoleMember}},
	}
	if diff := cmp.Diff(want, got.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"7", "8"}, got.Admins); diff != "" || got.GroupsClaim != "groups" || got.TrustEmail {
		t.Errorf("got %+v", got)
	}
}

// TestGroupFileRefusals names every fault by file and field.
func TestGroupFileRefusals(t *testing.T) {
	for name, test := range map[string]struct{ from, to, want string }{
		"an unknown field":    {"    admin", "    root", `unknown field "groups[0].root"`},
		"a group without use": {"    roles: {vision: member, speech: member}\n", "", "groups[1].group"},
		"a group that is two": {"research", "gpu-admins", `"gpu-admins" is empty or stands twice`},
		"a wrong role":        {"vision: lead", "vision: admin", `groups[0].roles.vision: "admin" is neither`},
		"a wrong team":        {"speech: member", "Speech: member", "groups[1].roles.Speech"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, strings.Replace(goodGroups, test.from, test.to, 1))
			_, err := Config{OIDCIssuer: "https://id.example", OIDCGroups: file}.oidc()
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), file) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestDemoToken makes a real token at every start, and leaves those of the last few to work.
func TestDemoToken(t *testing.T) {
	p := &portal{store: storetest.New(t)}
	mei := storetest.Fill(t, p.store, rayslice.Charge{}).Ada
	var secrets []string
	for range 60 {
		secret, err := p.demoToken(t.Context(), mei)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, secret)
	}
	for at, works := range map[int]bool{0: false, 54: false, 55: true, 59: true} {
		_, err := p.store.Token(t.Context(), rayslice.System, rayslice.HashToken(secrets[at]))
		if (err == nil) != works {
			t.Errorf("the token of start %d: %v", at, err)
		}
	}
}
