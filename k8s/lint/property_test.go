package lint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/rayslice/rayslice/k8s/lint"
)

// decorated puts comments, empty lines and blanks at line ends into a text at random, which mean nothing to its document.
func decorated(text string, random *rand.Rand) string {
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch random.IntN(5) {
		case 0:
			fmt.Fprintf(&out, "# mark %d\n", i)
		case 1:
			out.WriteString(strings.Repeat("\n", 1+random.IntN(3)))
		case 2:
			line += strings.Repeat(" ", 1+random.IntN(3)) + "# mark " + strings.Repeat("é", random.IntN(3))
		case 3:
			line += strings.Repeat(" ", random.IntN(3))
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

var decoration = regexp.MustCompile(`(?m)[ \t]*(# mark.*)?$`)

// bare takes all of it off again.
func bare(text string) string {
	var out strings.Builder
	for line := range strings.Lines(decoration.ReplaceAllString(text, "")) {
		if strings.TrimSpace(line) != "" {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestFixesAndCommentsCommute: it makes no difference whether a text is mended and then commented or the other way round, so no fix
// looks at more than its place; and of comments on lines of their own none gets lost.
func TestFixesAndCommentsCommute(t *testing.T) {
	mark := regexp.MustCompile(`(?m)^# mark \d+$`)
	mended := 0
	for name, tc := range rules() {
		text := changed(tc.parts)
		want, n := lint.FixAll(t.Context(), []byte(text), catalogue())
		if n == 0 {
			continue
		}
		for seed := range uint64(20) {
			with := decorated(text, rand.New(rand.NewPCG(seed, 1)))
			got, m := lint.FixAll(t.Context(), []byte(before+with+after), catalogue())
			if m != n || !strings.HasPrefix(string(got), before) || !strings.HasSuffix(string(got), after) {
				t.Fatalf("%s, %d: mended %d, want %d, or the other documents changed\n%s", name, seed, m, n, got)
			}
			inner := strings.TrimSuffix(strings.TrimPrefix(string(got), before), after)
			if diff := cmp.Diff(bare(string(want)), bare(inner)); diff != "" {
				t.Fatalf("%s, %d (-want +got):\n%s\nof\n%s", name, seed, diff, with)
			}
			if name == "no head" {
				continue // all of the head goes, and the comments within it
			}
			if lost := cmp.Diff(mark.FindAllString(with, -1), mark.FindAllString(inner, -1)); lost != "" {
				t.Fatalf("%s, %d: comments (-want +got):\n%s", name, seed, lost)
			}
			mended++
		}
	}
	if mended < 500 {
		t.Errorf("only %d texts were mended", mended)
	}
}

// documents decodes every document of a text.
func documents(text []byte) (all []any, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, document)
	}
}

// FuzzFix mends any bytes: documents that nothing is found in keep their values, and what is mended is mended.
func FuzzFix(f *testing.F) {
	for _, tc := range rules() {
		f.Add([]byte(changed(tc.parts)))
	}
	for _, tc := range mendable() {
		f.Add([]byte(before + tc[0] + after))
		f.Add([]byte(strings.ReplaceAll(tc[0], "\n", "\r\n")))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		found := map[int]bool{}
		for _, finding := range lint.Check(text, catalogue()).Findings {
			found[finding.Document] = true
		}
		fixed, n := lint.FixAll(ctx, text, catalogue())
		if n == 0 {
			if !bytes.Equal(fixed, text) {
				t.Fatal("changed without a fix")
			}
			return
		}
		was, err := documents(text)
		if err != nil {
			return // a text with keys twice
		}
		is, err := documents(fixed)
		if err != nil || len(is) != len(was) {
			t.Fatalf("%v: %d documents became %d\n%s", err, len(was), len(is), fixed)
		}
		for i := range was {
			if !found[i] && !reflect.DeepEqual(was[i], is[i]) {
				t.Fatalf("document %d changed:\n%s", i, fixed)
			}
		}
		if added, _ := differing(string(text), string(fixed)); added > 8*n {
			t.Fatalf("%d mended, %d lines are new:\n%s", n, added, fixed)
		}
	})
}
