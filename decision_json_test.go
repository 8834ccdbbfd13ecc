package rayslice

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeDecision(t *testing.T) {
	draft := RequestDraft{Hours: 8, Groups: []Group{{Slice: Slice{Pool: "a10", GiB: 8, Cards: 1}, Workers: 2, MinWorkers: 2, MaxWorkers: 2}, {Workers: 1, MinWorkers: 1, MaxWorkers: 1}}}
	for name, tc := range map[string]struct {
		body  string
		want  Decision
		field string // of the refusal; "" = none
		code  string
	}{
		"as asked":                      {`{"verdict":"approve","revision":3}`, Decision{Verdict: VerdictApprove, Revision: 3}, "", ""},
		"shorter":                       {`{"verdict":"approve","revision":3,"hours":4}`, Decision{Verdict: VerdictApprove, Revision: 3, Terms: &Terms{Hours: 4, Groups: []GroupTerms{{2, 8}, {1, 0}}}}, "", ""},
		"smaller":                       {`{"verdict":"approve","revision":3,"groups":[{"workers":1},{}]}`, Decision{Verdict: VerdictApprove, Revision: 3, Terms: &Terms{Hours: 8, Groups: []GroupTerms{{1, 8}, {1, 0}}}}, "", ""},
		"with a reason":                 {`{"verdict":"reject","revision":3,"answer":" no "}`, Decision{Verdict: VerdictReject, Revision: 3, Answer: "no"}, "", ""},
		"no verdict":                    {`{"revision":3}`, Decision{}, "verdict", CodeRequired},
		"another verdict":               {`{"verdict":"grant","revision":3}`, Decision{}, "verdict", CodeRequired},
		"no revision":                   {`{"verdict":"approve"}`, Decision{}, "revision", CodeRequired},
		"no reason":                     {`{"verdict":"reject","revision":3,"answer":"  "}`, Decision{}, "answer", CodeRequired},
		"T31 a hidden field":            {`{"verdict":"approve","revision":3,"approved_by":"Ada"}`, Decision{}, "approved_by", CodeUnknownField},
		"T31 a hidden field of a group": {`{"verdict":"approve","revision":3,"groups":[{"pool":"a100"}]}`, Decision{}, "pool", CodeUnknownField},
		"a word for a number":           {`{"verdict":"approve","revision":"3"}`, Decision{}, "revision", CodeType},
		"terms of a refusal":            {`{"verdict":"reject","revision":3,"answer":"no","hours":2}`, Decision{}, "terms", CodeUnknownField},
		"no JSON":                       {`verdict=approve`, Decision{}, "body", CodeNotJSON},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeDecision(strings.NewReader(tc.body), draft)
			if tc.field == "" {
				if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				return
			}
			wantBad(t, err, tc.field, tc.code)
		})
	}
}

func TestDecodeResend(t *testing.T) {
	const draft = `"team":"vision","name":"n","pool":"a10","slice_gib":8,"workers":2`
	got, err := DecodeResend(strings.NewReader(`{"revision":2,"reply":"for the paper",` + draft + `}`))
	want, _ := DecodeDraft(strings.NewReader("{" + draft + "}"))
	if diff := cmp.Diff(Resend{Draft: want, Revision: 2, Reply: "for the paper"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for body, bad := range map[string][2]string{
		`{` + draft + `}`: {"revision", CodeRequired},
		`{"revision":1,"state":"approved",` + draft + `}`: {"state", CodeUnknownField},
		`{"revision":1,"team":7}`:                         {"team", CodeType},
		`{"revision":1,"workers":"2"}`:                    {"workers", CodeType},
		`{"revision":1,"reply":"` + strings.Repeat("x", MaxAnswerLength+1) + `",` + draft + `}`: {"reply", CodeTooLong},
	} {
		_, err := DecodeResend(strings.NewReader(body))
		wantBad(t, err, bad[0], bad[1])
	}
}

func wantBad(t *testing.T, err error, field, code string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindInvalid {
		t.Fatalf("got %v, want %s %s", err, field, code)
	}
	for _, f := range e.Fields {
		if f.Field == field && f.Code == code {
			return
		}
	}
	t.Errorf("got %v, want %s %s", e, field, code)
}

// TestCheckTerms lets a lead grant only sizes that there are, and what was asked for in any case.
func TestCheckTerms(t *testing.T) {
	draft := RequestDraft{Hours: 8, Groups: []Group{{Slice: Slice{Pool: "a10", GiB: 9, Cards: 1}, MaxWorkers: 2}}}
	for gib, want := range map[int]bool{9: true, 8: true, 7: false, 4: true} {
		err := draft.CheckTerms(Terms{Hours: 8, Groups: []GroupTerms{{1, gib}}}, testCatalogue())
		if (err == nil) != want {
			t.Errorf("%d GiB: %v, want %v", gib, err, want)
		}
	}
}

// FuzzDecodeOthers sends anything to the decoders beside DecodeDraft's: a refusal names fields, and nothing that is accepted
// breaks its bounds.
func FuzzDecodeOthers(f *testing.F) {
	for _, seed := range []string{
		`{"verdict": "approve", "revision": 1}`, `{"verdict": "approve", "revision": 1, "hours": 2, "groups": [{"workers": 1, "slice_gib": 4}]}`,
		`{"verdict": "reject", "revision": 1e3, "answer": "\u0000"}`, `{"reply": "Figure 3", "revision": 1}`, `{"reply": " ", "revision": null}`,
		`{"revision": 2, "team": "vision", "name": "x", "pool": "a10", "slice_gib": 8, "workers": 1, "reply": "smaller"}`, `{}`, `null`, `[]`, `{}{}`, "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		draft := RequestDraft{Hours: 8, Groups: []Group{{Slice: Slice{Pool: "a10", GiB: 8, Cards: 1}, Workers: 2, MaxWorkers: 2}}}
		decision, err := DecodeDecision(strings.NewReader(body), draft)
		named(t, err)
		if err == nil && utf8.RuneCountInString(decision.Answer) > MaxAnswerLength {
			t.Errorf("accepted an answer of %d characters", utf8.RuneCountInString(decision.Answer))
		}
		reply, err := DecodeReply(strings.NewReader(body))
		named(t, err)
		if err == nil && (reply.Reply == "" || utf8.RuneCountInString(reply.Reply) > MaxAnswerLength) {
			t.Errorf("accepted the reply %q", reply.Reply)
		}
		again, err := DecodeResend(strings.NewReader(body))
		named(t, err)
		if err == nil && utf8.RuneCountInString(again.Reply) > MaxAnswerLength {
			t.Errorf("accepted a reply of %d characters", utf8.RuneCountInString(again.Reply))
		}
	})
}

// named fails unless an error is a refusal that names fields.
func named(t *testing.T, err error) {
	t.Helper()
	var refused *Error
	if err != nil && (!errors.As(err, &refused) || refused.Kind != KindInvalid || len(refused.Fields) == 0 || refused.Fields[0].Field == "") {
		t.Errorf("refused without a field: %v", err)
	}
}
