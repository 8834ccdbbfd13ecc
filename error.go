package rayslice

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind says what sort of refusal or failure an Error is; the HTTP floor maps it to a status.
type Kind string

// The kinds every floor speaks.
const (
	KindInvalid     Kind = "invalid"     // the input is wrong; Fields name where
	KindNotFound    Kind = "not_found"   // does not exist, or is another team's
	KindForbidden   Kind = "forbidden"   // exists and is visible, but this user may not
	KindConflict    Kind = "conflict"    // the state changed, or does not allow it now
	KindOverQuota   Kind = "over_quota"  // the team's limit does not allow it; Args hold the numbers
	KindUnavailable Kind = "unavailable" // a part we need is away; try again
)

// Error is a refusal people can read. Code picks the sentence from the catalogues in web/locales; Args fill it in.
// Err is the cause for the log and is never shown.
type Error struct {
	Kind   Kind
	Code   string         // stable, snake_case, e.g. "over_quota"
	Args   map[string]any // numbers and names for the sentence
	Fields []FieldError   // for KindInvalid: one entry per bad field
	Err    error          // private cause
}

// Error returns a terse text for logs; people see the catalogue's sentence instead.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s%s", e.Kind, e.Code, formatArgs(e.Args))
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s", f)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Err }

// FieldError names one bad field, why it was refused (Code) and the numbers of the rule (Args).
type FieldError struct {
	Field string         // path in the JSON body and the form, e.g. "groups[0].slice_gib"
	Code  string         // one of the Code… constants in draft.go
	Args  map[string]any // e.g. {"min": 1, "max": 400}
}

// String returns a terse text for logs.
func (f FieldError) String() string { return f.Field + " " + f.Code + formatArgs(f.Args) }

// Invalid returns the error for the given bad fields, or nil when there are none.
func Invalid(fields ...FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	return &Error{Kind: KindInvalid, Code: "invalid_fields", Fields: fields}
}

// NotFound returns the one answer for "does not exist" and "is not yours", so that the two cannot be told apart.
func NotFound(what string) error {
	return &Error{Kind: KindNotFound, Code: "not_found", Args: map[string]any{"what": what}}
}

// Forbidden returns the refusal of what is visible but not allowed; code says why.
func Forbidden(code string) error { return &Error{Kind: KindForbidden, Code: code} }

// KindOf returns the kind of the first *Error in err's chain, or "" when there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func formatArgs(args map[string]any) string {
	if len(args) == 0 {
		return ""
	}
	parts := make([]string, 0, len(args))
	for _, k := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, fmt.Sprintf("%s=%v", k, args[k]))
	}
	return " (" + strings.Join(parts, " ") + ")"
}
