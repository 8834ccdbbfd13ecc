package web

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
)

// catalogue reads one language's sentences; those with a plural come back with all forms in one string.
func catalogue(t *testing.T, code string) map[string]string {
	t.Helper()
	raw, err := locales.ReadFile("locales/" + code + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var messages map[string]any
	if err := json.Unmarshal(raw, &messages); err != nil {
		t.Fatal(err)
	}
	sentences := map[string]string{}
	for key, message := range messages {
		switch m := message.(type) {
		case string:
			sentences[key] = m
		case map[string]any:
			for _, form := range m {
				sentences[key] += form.(string) + "\n"
			}
		}
	}
	return sentences
}

var placeholder = regexp.MustCompile(`\.[A-Za-z_]+`)

// places returns the sorted names of what a sentence fills in.
func places(sentence string) []string {
	var names []string
	for _, action := range regexp.MustCompile(`{{[^}]*}}`).FindAllString(sentence, -1) {
		names = append(names, placeholder.FindAllString(action, -1)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestLanguagesSayTheSame(t *testing.T) {
	english := catalogue(t, "en")
	for _, language := range Languages()[1:] {
		other := catalogue(t, language.Code)
		for key, sentence := range english {
			translated, ok := other[key]
			if !ok || strings.TrimSpace(translated) == "" {
				t.Errorf("%s: %s has no sentence", language.Code, key)
			}
			if diff := cmp.Diff(places(sentence), places(translated)); ok && diff != "" {
				t.Errorf("%s: %s fills in other things (-en +%s):\n%s", language.Code, key, language.Code, diff)
			}
		}
		for key := range other {
			if _, ok := english[key]; !ok {
				t.Errorf("%s: %s has no English sentence", language.Code, key)
			}
		}
	}
}

func TestEveryKeyHasASentenceAndIsUsed(t *testing.T) {
	wanted := wantedKeys(t)
	english := catalogue(t, "en")
	for key, where := range wanted {
		if _, ok := english[key]; !ok {
			t.Errorf("%s, used in %s, has no sentence in web/locales", key, where)
		}
	}
	for key := range english {
		if _, ok := wanted[key]; !ok {
			t.Errorf("%s is not used anywhere: remove it from web/locales", key)
		}
	}
}

var spoken = regexp.MustCompile(`\.(?:T|N)\("([a-z0-9_]+)"[,)]`)

// wantedKeys returns every key that pages or codes of the product ask for, and where.
func wantedKeys(t *testing.T) map[string]string {
	t.Helper()
	wanted := map[string]string{}
	for _, pattern := range []string{"*.templ", "*.go"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if strings.HasSuffix(file, "_templ.go") || strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range spoken.FindAllSubmatch(source, -1) {
				wanted[string(m[1])] = file
			}
		}
	}
	addComputedKeys(wanted)
	addCodes(t, wanted)
	return wanted
}

// addComputedKeys adds the keys that code puts together, other than from codes.
func addComputedKeys(wanted map[string]string) {
	add := func(prefix string, names ...string) {
		for _, name := range names {
			wanted[prefix+name] = "keys put together"
		}
	}
	for _, s := range rayslice.States() {
		add("state_", string(s))
	}
	for _, k := range []rayslice.Kind{rayslice.KindInvalid, rayslice.KindNotFound, rayslice.KindForbidden, rayslice.KindConflict, rayslice.KindOverQuota, rayslice.KindUnavailable} {
		add("kind_", string(k))
	}
	for _, m := range []rayslice.Mode{rayslice.ModeCGPU, rayslice.ModeCoreMem, rayslice.ModeShare, rayslice.ModeWhole} {
		add("mode_", string(m))
	}
	add("role_", string(rayslice.RoleMember), string(rayslice.RoleLead))
	for _, k := range append(rayslice.NewsKinds(), rayslice.NewsTryMessage) {
		add("notice_", string(k))
	}
	for _, k := range rayslice.NewsKinds() {
		add("news_", string(k))
	}
	for _, f := range rayslice.WebhookForms() {
		add("form_", string(f))
	}
	add("phase_", "pending", "running", "succeeded", "failed")
	add("status_", "403", "404", "422", "503")
	add("now_", "rejected", "cancelled")
	add("error_over_quota", "_gib", "_cards")
	add("label_", "groups", "pool", "slice_gib")
	for name := range valuesOf(fullForm()) {
		if m := indexed.FindStringSubmatch(name); m != nil {
			name = m[2]
		}
		add("label_", strings.ReplaceAll(name, ".", "_"))
	}
	for _, s := range raiseStates() {
		add("raise_", string(s))
	}
	for _, e := range rayslice.Enforcements() {
		add("verdict_", string(e))
	}
	for _, c := range rayslice.Checks() {
		add("check_", string(c))
	}
	add("asked_", "variables", "card", "ray", "inside", "beyond", "boundary", "managed", "neighbours", "compute")
	add("seen_", "card", "ray", "neighbours", "compute")
	add("result_", string(rayslice.CheckPassed), string(rayslice.CheckFailed), string(rayslice.CheckInconclusive), string(rayslice.CheckSkipped), string(rayslice.CheckReported))
	add("proves_", string(rayslice.ProvesNothing), string(rayslice.ProvesLimit), string(rayslice.ProvesNoLimit), string(rayslice.ProvesGranted), string(rayslice.ProvesHint), string(rayslice.ProvesNeighbours))
	add("step_", rayslice.ProbeCodes()...)
	add("action_", AuditActions...)
	add("", "batch_crowded", "outcomes_crowded") // handed to crowdedText
	add("saved_", DoneCodes...)
	add("quota_nothing_", string(unitGiB), string(unitCards))
	add("", "ended_ago", "ends_in", "seen_ago", "use_ago", "late_for", "waits_for", "waits_since", "approvals_oldest", "fleet_as_of") // handed to the component relative
	add("use_range_", UseRanges()...)
	add("use_from_", string(rayslice.UseFromRay), string(rayslice.UseFromPrometheus))
	add("next_", rayslice.ReasonNeedsLeadGiB, rayslice.ReasonNeedsLeadCards, rayslice.ReasonNeedsLeadHours, rayslice.ReasonNeedsLeadShare)
	for _, stage := range rayslice.Stages() {
		add("stage_", string(stage))
	}
	for _, who := range rayslice.Parties() {
		add("who_", string(who))
	}
	for _, next := range rayslice.Nexts() {
		add("todo_", string(next))
	}
	add("label_", "page", "mode", "reply", "ids", "verdict", "revision")
	add("lint_", rayslice.FindingCodes()...)
	add("remedy_", rayslice.FindingCodes()...)
	add("severity_", string(rayslice.SeverityError), string(rayslice.SeverityWarning))
	add("type_", "text", "bool", "int", "number", "map", "list", "quantity", "null")
}

// addCodes reads the product's Go files for codes of errors, field errors and reasons.
func addCodes(t *testing.T, wanted map[string]string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"sandbox", "build", "bin", "bench", "clients"}, d.Name())):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_templ.go") || strings.HasPrefix(d.Name(), "samples"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, key := range keysOf(n) {
				wanted[key] = path
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(wanted, "reason_"+rayslice.WhyNotMade) // whyText has sentences of its own for these two
	delete(wanted, "reason_"+rayslice.WhyProbeFailed)
	for key := range wanted { // a constant may as well be the code of an error
		if code, ok := strings.CutPrefix(key, "field_"); ok && wanted["error_"+code] != "" {
			delete(wanted, key)
		}
	}
}

// keysOf returns the keys that one node of a Go file asks for.
func keysOf(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.ValueSpec:
		return keysOfConstants(n)
	case *ast.CompositeLit:
		prefix, ok := map[string]string{"Error": "error_", "FieldError": "field_", "Reason": "reason_"}[typeName(n.Type)]
		if !ok {
			return nil
		}
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok && typeName(pair.Key) == "Code" && literal(pair.Value) != "" {
				return []string{prefix + literal(pair.Value)}
			}
		}
	case *ast.CallExpr:
		if code := codeOfCall(n); code != "" {
			return []string{"error_" + code}
		}
	}
	return nil
}

// codeOfCall returns the code that a call refuses with, "" for any other call.
func codeOfCall(n *ast.CallExpr) string {
	switch name := typeName(n.Fun); {
	case name == "refuse" && len(n.Args) == 4: // handlers: refuse(http.StatusForbidden, "cross_origin", …)
		return literal(n.Args[1])
	case name == "Forbidden" && len(n.Args) == 1: // rayslice.Forbidden("decide_own")
		return literal(n.Args[0])
	case name == "forbid" && len(n.Args) == 4: // store: forbid(ctx, actor, entry, "rules_not_lead")
		return literal(n.Args[3])
	}
	return ""
}

var (
	codeName  = regexp.MustCompile(`^([Cc]ode|[Rr]eason|Why)[A-Z]`)
	codeValue = regexp.MustCompile(`^[a-z][a-z_]+$`) // SQLSTATEs are codes of another kind
)

// keysOfConstants reads constants like CodeRange = "range" and ReasonExpired = "expired".
func keysOfConstants(spec *ast.ValueSpec) []string {
	var keys []string
	for i, name := range spec.Names {
		if i < len(spec.Values) && codeName.MatchString(name.Name) && codeValue.MatchString(literal(spec.Values[i])) {
			prefix := "field_"
			if !strings.HasPrefix(strings.ToLower(name.Name), "code") {
				prefix = "reason_"
			}
			keys = append(keys, prefix+literal(spec.Values[i]))
		}
	}
	return keys
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}
