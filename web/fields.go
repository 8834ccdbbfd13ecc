package web

import (
	"errors"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// A Form is a small form as it was typed, with what is wrong with it. The form that asks for a cluster has its own.
type Form struct {
	ID      string          // what its inputs' ids begin with; unique on the page
	Values  url.Values      // by the names of the inputs
	Problem *rayslice.Error // why it came back; nil = it did not
}

// Get returns what an input holds.
func (f Form) Get(name string) string { return f.Values.Get(name) }

func (f Form) inputID(name string) string {
	return f.ID + "-" + strings.Trim(notInID.ReplaceAllString(name, "-"), "-")
}

func (f Form) errorsOf(name string) []rayslice.FieldError {
	if f.Problem == nil {
		return nil
	}
	var errors []rayslice.FieldError
	for _, e := range f.Problem.Fields {
		if e.Field == name {
			errors = append(errors, e)
		}
	}
	return errors
}

// control returns the attributes that every input shares.
func (f Form) control(name string, hinted bool) templ.Attributes {
	id := f.inputID(name)
	attributes := templ.Attributes{"name": name, "id": id}
	var by []string
	if hinted {
		by = append(by, id+"-hint")
	}
	if len(f.errorsOf(name)) > 0 {
		attributes["aria-invalid"] = "true"
		by = append(by, id+"-error")
	}
	if len(by) > 0 {
		attributes["aria-describedby"] = strings.Join(by, " ")
	}
	return attributes
}

// unshown returns the errors that belong to none of the form's inputs.
func (f Form) unshown(names ...string) []rayslice.FieldError {
	if f.Problem == nil {
		return nil
	}
	var rest []rayslice.FieldError
	for _, e := range f.Problem.Fields {
		shown := false
		for _, name := range names {
			shown = shown || e.Field == name
		}
		if !shown {
			rest = append(rest, e)
		}
	}
	return rest
}

// formReader turns typed text into values and names what it cannot read.
type formReader struct {
	values url.Values
	bad    []rayslice.FieldError
}

func (r *formReader) text(name string) string {
	return strings.TrimSpace(strings.ReplaceAll(r.values.Get(name), "\r\n", "\n"))
}

// number reads a whole number; an empty input is otherwise.
func (r *formReader) number(name string, otherwise int) int {
	text := r.text(name)
	if text == "" {
		return otherwise
	}
	n, err := wholeNumber(text)
	if err != nil {
		r.refuse(name, rayslice.CodeType, map[string]any{"want": "int", "got": "text"})
	}
	return n
}

// wholeNumber reads a whole number. One that is too long for any is as large as can be, which the bounds then refuse.
func wholeNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	return max(math.MinInt32, min(n, math.MaxInt32)), err
}

// needed reads a whole number; an empty input is refused, as 0 would be a decision that nobody made.
func (r *formReader) needed(name string) int {
	if r.text(name) == "" {
		r.refuse(name, rayslice.CodeRequired, nil)
	}
	return r.number(name, 0)
}

func (r *formReader) refuse(name, code string, args map[string]any) {
	r.bad = append(r.bad, rayslice.FieldError{Field: name, Code: code, Args: args})
}

// charge reads an amount of GiB and cards, of which both are needed.
func (r *formReader) charge(prefix string) rayslice.Charge {
	return rayslice.Charge{GiB: r.needed(prefix + "gib"), Cards: r.needed(prefix + "cards")}
}

// day reads a day as its last second in UTC; an empty input is the zero time.
func (r *formReader) day(name string) time.Time {
	text := r.text(name)
	if text == "" {
		return time.Time{}
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || !utf8.ValidString(text) {
		r.bad = append(r.bad, rayslice.FieldError{Field: name, Code: CodeDay})
		return time.Time{}
	}
	return EndOfDay(day)
}

// CodeDay is the field code of a day that is none; only forms have it.
const CodeDay = "day"

// EndOfDay returns the last second of a day in UTC: what "until that day" means everywhere.
func EndOfDay(day time.Time) time.Time {
	y, m, d := day.UTC().Date()
	return time.Date(y, m, d, 23, 59, 59, 0, time.UTC)
}

// StartOfDay returns the first second of a day in UTC.
func StartOfDay(day time.Time) time.Time {
	y, m, d := day.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// dayText is a day as an input of type date holds it; "" for the zero time.
func dayText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}

// A Confirmation asks once more before something that cannot be undone: in a dialog, or without JavaScript as a part of
// the page at ?confirm=ID.
type Confirmation struct {
	ID      string // unique on the page
	Link    string // address that asks without JavaScript
	Heading string
	Text    string      // what will happen
	Action  string      // where the form posts to
	Button  string      // what the button that does it says
	Back    string      // address of the page itself
	Keep    string      // what the button that does not says
	Hidden  [][2]string // names and values that go with it
}

// asked returns the confirmation that the address asks for; false when it asks for none.
func asked(all []Confirmation, id string) (Confirmation, bool) {
	for _, c := range all {
		if c.ID == id {
			return c, true
		}
	}
	return Confirmation{}, false
}

// Pages are the addresses around one page of a list.
type Pages struct {
	First string // address of the first page; "" = this is it
	Next  string // address of the next page; "" = no more
}

// oneLine shows characters that would break a line, a terminal or the direction of text as escapes, so that what
// somebody called themselves stays inside its own cell.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r < 0x20 || r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029', r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == utf8.RuneError:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// digits is a number as an input holds it.
func digits(n int) string { return strconv.Itoa(n) }
