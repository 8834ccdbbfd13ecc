package rayslice

import (
	"regexp"
	"slices"
	"strings"
)

// TeamDraft is what an admin sets when adding a team.
type TeamDraft struct {
	Name      string // DNS label; stands in labels of running objects, so it never changes
	Namespace string // Kubernetes namespace of its clusters; DNS label
	Limit     Charge // its base limit
}

// Lengths of names, in characters. A team's name goes into labels, beside other words.
const (
	maxTeamNameLength  = 40
	maxNamespaceLength = 63
)

var dnsLabel = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

// Validate names every bad field; nil when there is none. reserved are namespaces that no team may have, beside Kubernetes' own.
// Whether a name is taken only the store knows.
func (d TeamDraft) Validate(reserved ...string) error {
	v := &validation{}
	v.label("name", d.Name, maxTeamNameLength)
	v.label("namespace", d.Namespace, maxNamespaceLength)
	if d.Namespace == "default" || strings.HasPrefix(d.Namespace, "kube-") || slices.Contains(reserved, d.Namespace) {
		v.bad("namespace", CodeReservedNamespace, map[string]any{"name": d.Namespace})
	}
	v.limit(d.Limit)
	return Invalid(v.fields...)
}

// Field codes of teams.
const (
	CodeReservedNamespace = "reserved_namespace" // Kubernetes' own, or the portal's; Args: name
	CodeTaken             = "taken"              // another team has it; Args: value
)

// ValidateLimit names every bad field of a base limit and what is said about it; nil when there is none.
func ValidateLimit(limit Charge, note string) error {
	v := &validation{}
	v.limit(limit)
	v.text("note", note, MaxPurposeLength, false)
	return Invalid(v.fields...)
}

func (v *validation) limit(c Charge) {
	v.within("gib", c.GiB, 0, MaxLimit)
	v.within("cards", c.Cards, 0, MaxLimit)
}

func (v *validation) label(field, s string, most int) {
	switch {
	case s == "":
		v.bad(field, CodeRequired, nil)
	case len(s) > most:
		v.bad(field, CodeTooLong, map[string]any{"max": most})
	case !dnsLabel.MatchString(s):
		v.bad(field, CodeCharacters, map[string]any{"allowed": "a–z, 0–9, -"})
	}
}
