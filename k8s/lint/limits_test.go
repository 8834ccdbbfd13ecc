package lint_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s/lint"
)

// aliasBomb would be a thousand million values, written out.
func aliasBomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String() + "kind: RayCluster\n"
}

// hostile are texts that would cost a careless reader time or memory (T27), with the code that they are refused with.
func hostile() map[string]struct{ text, code string } {
	return map[string]struct{ text, code string }{
		"10 MB":               {strings.Repeat("kind: RayCluster\n", 10<<20/17), rayslice.FindingTooLarge},
		"one line of 10 MB":   {"kind: " + strings.Repeat("a", 10<<20), rayslice.FindingTooLarge},
		"alias bomb":          {aliasBomb(), rayslice.FindingTooMuch},
		"merge bomb":          {"a: &a {k: v}\nb: &b {<<: [" + strings.TrimSuffix(strings.Repeat("*a, ", 20_000), ", ") + "]}\nc: [" + strings.TrimSuffix(strings.Repeat("*b, ", 20_000), ", ") + "]\n", rayslice.FindingTooMuch},
		"anchor in itself":    {"kind: RayCluster\nspec: &s\n  headGroupSpec: *s\n", rayslice.FindingInItself},
		"anchor far within":   {"kind: RayCluster\nspec: &s {a: [{b: [*s]}]}\n", rayslice.FindingInItself},
		"anchor in two":       {"kind: RayCluster\na: &a {b: &b {c: *a, d: *b}}\n", rayslice.FindingInItself},
		"merge of itself":     {"kind: RayCluster\nspec: &s {headGroupSpec: {<<: *s}}\n", rayslice.FindingInItself},
		"merge in its list":   {"kind: RayCluster\nspec: &s {<<: [*s]}\n", rayslice.FindingInItself},
		"lists 10,000 deep":   {strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), rayslice.FindingTooDeep},
		"lists 40,000 deep":   {strings.Repeat("[", 40_000), rayslice.FindingTooDeep},
		"maps 10,000 deep":    {strings.Repeat("{a: ", 10_000) + strings.Repeat("}", 10_000), rayslice.FindingTooDeep},
		"dashes 10,000 deep":  {strings.Repeat("- ", 10_000) + "x", rayslice.FindingTooDeep},
		"keys 1,000 deep":     {indented(1_000), rayslice.FindingTooDeep},
		"questions":           {strings.Repeat("? ", 20_000) + "x", rayslice.FindingTooDeep},
		"half a million list": {"[" + strings.Repeat("a,", 500_000) + "]", rayslice.FindingTooMuch},
		"60,000 values":       {"kind: RayCluster\nspec:\n" + strings.Repeat("- a\n", 30_000) + "x:\n" + strings.Repeat("- a\n", 20_000), rayslice.FindingTooMuch},
		"40,000 values":       {"kind: RayCluster\nspec: {rayVersion: a, headGroupSpec: {template: {spec: {volumes:\n[" + strings.Repeat("{name: a},", 19_000) + "]}}}}\n", rayslice.FindingNoSpec},
		"1 MiB of text":       {"kind: RayCluster\nspec: |\n  " + strings.Repeat("word ", 200_000), rayslice.FindingWrongType},
		"1 MiB of quotes":     {"kind: RayCluster\nspec: '" + strings.Repeat("''", 500_000) + "'", rayslice.FindingWrongType},
		"1 MiB of escapes":    {"kind: RayCluster\nspec: \"" + strings.Repeat(`\u00e9`, 170_000) + "\"", rayslice.FindingWrongType},
		"1 MiB of comments":   {strings.Repeat("#\n", 90_000) + "kind: RayCluster\n" + strings.Repeat("# "+strings.Repeat("x", 100)+"\n", 5_000), rayslice.FindingNoSpec},
		"1 MiB of spaces":     {"kind: RayCluster" + strings.Repeat(" ", 1_000_000), rayslice.FindingNoSpec},
		"5,000 documents":     {strings.Repeat("---\na\n", 5_000), rayslice.FindingDocuments},
		"10,000 anchors":      {anchors(10_000), rayslice.FindingNoCluster},
		"10,000 fields":       {"kind: RayCluster\nspec:\n" + fields(10_000), rayslice.FindingMore},
		"the same field":      {"kind: RayCluster\nspec:\n" + strings.Repeat("  a: 1\n", 10_000), rayslice.FindingMore},
		"not UTF-8":           {"kind: \xff\xfe\xfd", rayslice.FindingNotYAML},
		"zero bytes":          {"kind: RayCluster\x00", rayslice.FindingNotYAML},
		"1e999999999":         {changed([]string{"memory: 8Gi", "memory: 1e999999999"}), rayslice.FindingQuantityRange},
		"1e-999999999":        {changed([]string{"memory: 8Gi", "memory: 1e-999999999"}), rayslice.FindingQuantityRange},
		"1E10000000 of CPUs":  {changed([]string{"cpu: 2,", "cpu: \"1E10000000\","}), rayslice.FindingQuantityRange},
		"e-99999999 workers":  {changed([]string{"memory: 16Gi", "memory: 1e-99999999"}), rayslice.FindingQuantityRange},
		"exponent of zeros":   {changed([]string{"memory: 8Gi", "memory: 1e" + strings.Repeat("0", 40) + "99"}), rayslice.FindingQuantityRange},
		"1 MiB of digits":     {changed([]string{"memory: 8Gi", "memory: " + strings.Repeat("9", 1_000_000)}), rayslice.FindingQuantityRange},
		"1 MiB behind a dot":  {changed([]string{"memory: 8Gi", "memory: 0." + strings.Repeat("0", 1_000_000) + "1Gi"}), rayslice.FindingQuantityRange},
		"digits of a device":  {changed([]string{limit, "                  amd.com/gpu: 1e-999999999\n" + limit}), rayslice.FindingQuantityRange},
		"digits of a slice":   {changed([]string{limit, strings.Replace(limit, `"8"`, "1e999999999", 1)}), rayslice.FindingSliceSize},
		"size of a volume":    {changed([]string{podLine, strings.Replace(podLine, "spec:\n", "spec:\n          volumes: [{name: v, emptyDir: {sizeLimit: 1e-999999999}}]\n", 1)}), rayslice.FindingQuantityRange},
		"nothing":             {"", rayslice.FindingNoCluster},
		"a word":              {"RayCluster", rayslice.FindingNoCluster},
		"a list":              {"- kind: RayCluster", rayslice.FindingNoCluster},
		"null everywhere":     {"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: null\nspec: {headGroupSpec: {rayStartParams: null, template: null}, workerGroupSpecs: [null, {template: {spec: {containers: [null]}}}]}", rayslice.FindingNoSpec},
	}
}

func indented(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func anchors(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: &a%d x\n", i, i)
	}
	return b.String()
}

func fields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  f%d: x\n", i)
	}
	return b.String()
}

// processorTime is how long this process has computed: what it takes on a machine that others keep busy too.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestLimits is T27: each is refused with its line, within 200 ms and 50 MB.
func TestLimits(t *testing.T) {
	for name, tc := range hostile() {
		t.Run(name, func(t *testing.T) {
			text := []byte(tc.text)
			var report rayslice.LintReport
			took, mib := time.Hour, 0.0
			for range 3 { // the best of three
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := processorTime(t)
				report = lint.Check(text, catalogue())
				took = min(took, processorTime(t)-began)
				runtime.ReadMemStats(&after)
				mib = float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20)
			}
			t.Logf("%v, %.1f MiB", took.Round(time.Millisecond/10), mib)
			found := false
			for _, f := range report.Findings {
				found = found || f.Code == tc.code
				if f.Line < 1 || f.Column < 1 {
					t.Errorf("%s has no place", f.Code)
				}
			}
			if !found || len(report.Findings) > lint.MaxFindings+1 {
				t.Errorf("want %s; found %d, first %+v", tc.code, len(report.Findings), report.Findings[:min(1, len(report.Findings))])
			}
			if took > 200*time.Millisecond || mib > 50 { // all that was ever allocated, so more than was ever held
				t.Errorf("took %v and %.1f MiB", took, mib)
			}
		})
	}
}

// TestFixesEndInTime: mending a text of a megabyte ends soon after its time is over, with what was mended by then (T27).
func TestFixesEndInTime(t *testing.T) {
	filler := "  data: [" + strings.TrimSuffix(strings.Repeat("a, ", 45_000), ", ") + "]\n"
	text := []byte("kind: ConfigMap\n" + filler + "---\n" + strings.Replace(sound, "    - groupName: slices\n", "    - groupName: slices\n"+fields(190), 1))
	text = bytes.Replace(text, []byte("kind: ConfigMap\n"), []byte("kind: ConfigMap\ndata:\n"), 1)
	text = bytes.ReplaceAll(text, []byte("  f"), []byte("      f"))
	const most = 2 * time.Second // the page's
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	began := processorTime(t)
	fixed, n := lint.FixAll(ctx, text, catalogue())
	took := processorTime(t) - began
	t.Logf("mended %d in %v", n, took)
	if left := lint.Check(fixed, catalogue()).Findings; n != 190 || len(left) > 0 || took > most {
		t.Errorf("mended %d in %v; left %+v", n, took, left)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if fixed, n := lint.FixAll(over, text, catalogue()); n != 0 || !bytes.Equal(fixed, text) {
		t.Errorf("mended %d when nobody waits", n)
	}
}
