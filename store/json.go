package store

import (
	"bytes"
	"encoding/json"

	"github.com/rayslice/rayslice"
)

// observedJSON is v as jsonb can hold it. jsonb has no NUL, and text from Kubernetes may have one, which must not keep
// the rest from being recorded: it becomes U+FFFD.
func observedJSON(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil || !bytes.Contains(raw, []byte(`\u0000`)) {
		return raw, err
	}
	out := raw[:0:0]
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] != '\\':
			out = append(out, raw[i])
		case bytes.HasPrefix(raw[i:], []byte(`\u0000`)):
			out, i = append(out, `\ufffd`...), i+5
		default: // an escape is taken whole, so that the second backslash of \\u0000 does not begin one
			out, i = append(out, raw[i], raw[i+1]), i+1
		}
	}
	return out, nil
}

// reasonJSON is the reason as a jsonb parameter; null when there is nothing to say.
func reasonJSON(r rayslice.Reason) (json.RawMessage, error) {
	if r.IsZero() {
		return nil, nil
	}
	return observedJSON(r)
}
