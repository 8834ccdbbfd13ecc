package rayslice

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"time"
)

// MaxTokenDays is the longest an API token lives.
const MaxTokenDays = 90

// TokenPrefix is what every API token begins with, so that scanners for secrets find one that was published. Behind it
// stand 26 random characters (130 bits) and 7 that check the rest, each of A–Z and 2–7; see CheckToken.
const TokenPrefix = "rayslice_pat_"

// Token is an API token as its owner sees it again: never the secret.
type Token struct {
	ID        int64
	Name      string
	Team      string // "" = each of the owner's teams
	Prefix    string // first characters of the secret, for people to tell tokens apart
	Scopes    []Scope
	CreatedAt time.Time
	EndsAt    time.Time
	UsedAt    time.Time // to the minute; zero = never
	RevokedAt time.Time // zero = it was not
}

// Live reports whether the token can be used at the given time.
func (t Token) Live(now time.Time) bool { return t.RevokedAt.IsZero() && now.Before(t.EndsAt) }

// TokenDraft is what somebody asks for.
type TokenDraft struct {
	Name   string
	Team   string // "" = each of the owner's teams
	Scopes []Scope
	Days   int // until it ends
}

// Normalize trims the name and adds the scope to read, which every token has, in a fixed order.
func (d *TokenDraft) Normalize() {
	d.Name = strings.TrimSpace(d.Name)
	wanted := append([]Scope{ScopeRead}, d.Scopes...)
	d.Scopes = slices.DeleteFunc(Scopes(), func(s Scope) bool { return !slices.Contains(wanted, s) })
}

// Validate names every bad field of a normalized draft.
func (d TokenDraft) Validate() error {
	var v validation
	v.text("name", d.Name, MaxNameLength, true)
	v.within("days", d.Days, 1, MaxTokenDays)
	return Invalid(v.fields...)
}

// NewToken returns a fresh secret.
func NewToken() string {
	secret := TokenPrefix + rand.Text()
	return secret + checkOf(secret)
}

// PublicPrefix returns the part of a secret that people may see again.
func PublicPrefix(secret string) string { return secret[:len(TokenPrefix)+4] }

// HashToken returns what is kept of a secret. It has 130 random bits, so a fast hash does.
func HashToken(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

var tokenFormat = regexp.MustCompile(`^` + TokenPrefix + `[A-Z2-7]{33}$`)

// CheckToken reports whether text was once made by NewToken: a mistyped or made-up one is told apart without asking
// anybody. The last 7 characters are the CRC-32 (IEEE, big-endian) of all before them in base32.
func CheckToken(text string) bool {
	return tokenFormat.MatchString(text) && strings.HasSuffix(text, checkOf(text[:len(text)-7]))
}

func checkOf(text string) string {
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text)))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum)
}
