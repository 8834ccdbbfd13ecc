package rayslice

import (
	"slices"
	"testing"
)

// TestTokens makes secrets that a scanner can tell from every other text.
func TestTokens(t *testing.T) {
	secret := NewToken()
	if !CheckToken(secret) || secret == NewToken() || len(PublicPrefix(secret)) != len(TokenPrefix)+4 {
		t.Errorf("secret %q", secret)
	}
	for i := range secret { // one wrong character anywhere
		wrong := []byte(secret)
		wrong[i] = 'A' + (wrong[i]+1)%26
		if CheckToken(string(wrong)) && string(wrong) != secret {
			t.Errorf("%q passes", wrong)
		}
	}
	for _, text := range []string{"", TokenPrefix, secret + "A", secret[1:], "Bearer " + secret, secret + "\n"} {
		if CheckToken(text) {
			t.Errorf("%q passes", text)
		}
	}
	if !CheckToken("rayslice_pat_AAAAAAAAAAAAAAAAAAAAAAAAAA" + checkOf("rayslice_pat_AAAAAAAAAAAAAAAAAAAAAAAAAA")) {
		t.Error("the check depends on more than the text")
	}
}

// TestTokenDraft adds what every token has and refuses what none may.
func TestTokenDraft(t *testing.T) {
	d := TokenDraft{Name: "  ci ", Scopes: []Scope{ScopeStop, "approve"}, Days: 90}
	d.Normalize()
	if d.Name != "ci" || !slices.Equal(d.Scopes, []Scope{ScopeRead, ScopeStop}) || d.Validate() != nil {
		t.Errorf("got %+v, %v", d, d.Validate())
	}
	for _, days := range []int{0, -1, 91} {
		d.Days = days
		if KindOf(d.Validate()) != KindInvalid {
			t.Errorf("%d days pass", days)
		}
	}
}
