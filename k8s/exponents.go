package k8s

import (
	"io"
	"net/http"
	"regexp"

	"k8s.io/client-go/transport"
)

// boundExponents makes a client for custom resources read quantities that can be computed with. The API server holds those of its own
// kinds against bounds; of a RayCluster it looks at the pattern only, which lets "1e-999999999" through, and whoever decodes
// that computes with as many digits.
func boundExponents(next http.RoundTripper) http.RoundTripper { return boundedTransport{next} }

type boundedTransport struct{ next http.RoundTripper }

var _ transport.WrapperFunc = boundExponents

// RoundTrip answers as the next one does, but for exponents.
func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		response.Body = &boundedBody{ReadCloser: response.Body, chunk: make([]byte, 32<<10)}
	}
	return response, err
}

// monstrous is a quantity whose exponent has three digits or more. No quantity is as large or as small as one with two.
var monstrous = regexp.MustCompile(`^"([+-]?[0-9.]+[eE][+-]?)0*[1-9][0-9]{2,}"$`)

// maxToken is from how many bytes on a text is passed on unseen. Longer quantities cost little without an exponent, and with
// one they are cut at it.
const maxToken = 4 << 10

// boundedBody is JSON whose quantities have exponents of two digits at most. It passes on what has arrived as soon as the text that it
// is in has ended. The values of environment variables are left alone: they are no quantities.
type boundedBody struct {
	io.ReadCloser
	chunk   []byte
	out     []byte // what is to be passed on
	err     error  // how the body ended
	token   []byte // the text that is being read, with its quotes
	within  bool   // a text is being read
	escaped bool   // the next character of it has no meaning of its own
	unseen  bool   // it is passed on as it comes
	last    bool   // the text before is "value"
	value   bool   // the latest key is
}

// Read reads JSON.
func (b *boundedBody) Read(p []byte) (int, error) {
	for len(b.out) == 0 && b.err == nil {
		var n int
		n, b.err = b.ReadCloser.Read(b.chunk)
		b.out = b.out[:0]
		for _, c := range b.chunk[:n] {
			b.next(c)
		}
		if b.err != nil {
			b.out, b.token = append(b.out, b.token...), nil
		}
	}
	if len(b.out) == 0 {
		return 0, b.err
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func (b *boundedBody) next(c byte) {
	switch {
	case !b.within && c == '"':
		b.within, b.unseen, b.token = true, false, append(b.token[:0], c)
	case !b.within:
		if c == ':' {
			b.value = b.last
		}
		b.out = append(b.out, c)
	default:
		b.text(c)
	}
}

// text takes one more character of a text.
func (b *boundedBody) text(c byte) {
	b.token = append(b.token, c)
	end := c == '"' && !b.escaped
	b.escaped = c == '\\' && !b.escaped
	if len(b.token) > maxToken {
		b.unseen, b.out, b.token = true, append(b.out, b.token...), b.token[:0]
	}
	if !end {
		return
	}
	b.within = false
	if !b.unseen && !b.value && len(b.token) > 5 && b.token[1] <= '9' { // digits, signs and dots are; letters are not
		b.token = monstrous.ReplaceAll(b.token, []byte(`"${1}99"`))
	}
	b.last = string(b.token) == `"value"`
	b.out, b.token = append(b.out, b.token...), b.token[:0]
}
