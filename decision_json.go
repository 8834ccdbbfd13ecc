package rayslice

import (
	"io"
	"strings"
)

// decisionBody is the JSON form of a decision. What is left out of the terms is granted as it was asked for.
type decisionBody struct {
	Verdict  string      `json:"verdict"`
	Revision *int        `json:"revision"`
	Hours    *int        `json:"hours"`
	Groups   []termsBody `json:"groups"`
	Answer   string      `json:"answer"`
}

type termsBody struct {
	Workers *int `json:"workers"`
	GiB     *int `json:"slice_gib"`
}

// DecodeDecision reads one JSON object strictly, as DecodeDraft does, as a decision about a request for the draft. An
// *Error of KindInvalid names every bad field.
func DecodeDecision(r io.Reader, draft RequestDraft) (Decision, error) {
	var body decisionBody
	if err := Decode(r, &body); err != nil {
		return Decision{}, err
	}
	d := Decision{Verdict: Verdict(body.Verdict), Revision: valueOr(body.Revision, 0), Answer: strings.TrimSpace(body.Answer)}
	if body.Hours != nil || body.Groups != nil {
		terms := draft.AsAsked()
		terms.Hours = valueOr(body.Hours, terms.Hours)
		if body.Groups != nil {
			terms.Groups = body.terms(terms.Groups)
		}
		d.Terms = &terms
	}
	if body.Revision == nil {
		return d, Invalid(FieldError{Field: "revision", Code: CodeRequired})
	}
	return d, d.Validate()
}

func (b decisionBody) terms(asked []GroupTerms) []GroupTerms {
	terms := make([]GroupTerms, len(b.Groups))
	for i, g := range b.Groups {
		var was GroupTerms
		if i < len(asked) {
			was = asked[i]
		}
		terms[i] = GroupTerms{Workers: valueOr(g.Workers, was.Workers), GiB: valueOr(g.GiB, was.GiB)}
	}
	return terms
}

// resendBody is a draft together with what sending it again needs.
type resendBody struct {
	Revision *int   `json:"revision"`
	Reply    string `json:"reply"`

	draftBody
}

// A Resend is a changed draft for a request that waits.
type Resend struct {
	Draft    RequestDraft
	Revision int    // of the request as its owner saw it
	Reply    string // to the lead who asked back; "" = nothing to say
}

// DecodeResend reads a draft as DecodeDraft does, with "revision" and optionally "reply" beside its fields.
func DecodeResend(r io.Reader) (Resend, error) {
	var body resendBody
	if err := Decode(r, &body); err != nil {
		return Resend{}, err
	}
	draft, err := body.draft()
	if err != nil {
		return Resend{}, err
	}
	if body.Revision == nil {
		return Resend{}, Invalid(FieldError{Field: "revision", Code: CodeRequired})
	}
	again := Resend{Draft: draft, Revision: *body.Revision, Reply: strings.TrimSpace(body.Reply)}
	return again, CheckReply(again.Reply)
}

// An Answer is what an owner says to a lead who has asked back.
type Answer struct {
	Revision int // of the request as its owner saw it
	Reply    string
}

// DecodeReply reads one JSON object strictly, as DecodeDraft does, as an owner's answer. It must say something.
func DecodeReply(r io.Reader) (Answer, error) {
	var body struct {
		Revision *int   `json:"revision"`
		Reply    string `json:"reply"`
	}
	if err := Decode(r, &body); err != nil {
		return Answer{}, err
	}
	v, answer := &validation{}, Answer{Revision: valueOr(body.Revision, 0), Reply: strings.TrimSpace(body.Reply)}
	v.text("reply", answer.Reply, MaxAnswerLength, true)
	if body.Revision == nil {
		v.bad("revision", CodeRequired, nil)
	}
	return answer, Invalid(v.fields...)
}

// CheckReply refuses what an owner may not write to a lead.
func CheckReply(reply string) error {
	v := &validation{}
	v.text("reply", reply, MaxAnswerLength, false)
	return Invalid(v.fields...)
}
