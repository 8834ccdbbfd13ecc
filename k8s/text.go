package k8s

import (
	"strings"
	"unicode"
)

// maxText is how many characters of a text from Kubernetes are kept.
const maxText = 500

// clean makes text that users of a cluster can influence safe to store and to log: one line, no control or direction
// characters, valid UTF-8, at most maxText characters. Escaping is left to whoever shows it.
func clean(text string) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case unicode.IsControl(r), unicode.In(r, unicode.Bidi_Control, unicode.Cs):
			continue
		}
		if space {
			b.WriteByte(' ')
			n, space = n+1, false
		}
		if n >= maxText {
			b.WriteString("…")
			break
		}
		b.WriteRune(r) // invalid bytes have become U+FFFD by ranging
		n++
	}
	return b.String()
}
