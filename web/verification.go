package web

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rayslice/rayslice"
)

// A VerificationView is what a cluster's page says of whether its slices are enforced.
type VerificationView struct {
	Runs         []rayslice.Verification // latest first
	Certificates []rayslice.Certificate  // latest first; the first of a pod counts
	CanVerify    bool                    // this user may ask for another run
}

// open returns the run that is under way or asked for.
func (v VerificationView) open() (rayslice.Verification, bool) {
	if len(v.Runs) == 0 || !v.Runs[0].Open() {
		return rayslice.Verification{}, false
	}
	return v.Runs[0], true
}

// verified is one worker with its latest certificate.
type verified struct {
	worker      rayslice.Worker
	number      int                  // as in the table of workers
	certificate rayslice.Certificate // ID 0 = none
	verdict     rayslice.Enforcement // as it counts now; "" = never verified
	lastRead    time.Time            // of a later look that only read, as the slice was in use; zero = none
}

// lastRead returns when the pod was last looked at after the certificate that counts.
func lastRead(certificates []rayslice.Certificate, counts rayslice.Certificate) time.Time {
	for _, c := range certificates {
		if c.Target.PodUID == counts.Target.PodUID && c.ID != counts.ID && c.At.After(counts.At) {
			return c.At
		}
	}
	return time.Time{}
}

// verifiedWorkers returns the workers with slices, the ones that need a look first.
func verifiedWorkers(p RequestPage) []verified {
	var rows []verified
	standing := rayslice.Standing(p.Verification.Certificates)
	for i, w := range p.Cluster.Workers {
		if w.Slice.IsZero() {
			continue
		}
		row := verified{worker: w, number: i + 1}
		at := slices.IndexFunc(standing, func(c rayslice.Certificate) bool { return c.Target.Pod == w.Name })
		if at >= 0 {
			row.certificate = standing[at]
			row.lastRead = lastRead(p.Verification.Certificates, row.certificate)
			row.verdict = row.certificate.Now(w.UID, w.Node, row.certificate.NodeDriver)
		}
		rows = append(rows, row)
	}
	rank := func(v verified) int {
		return -slices.Index(rayslice.Enforcements(), v.verdict) // none is -1, so it comes last
	}
	slices.SortStableFunc(rows, func(a, b verified) int { return rank(a) - rank(b) })
	return rows[:min(len(rows), maxPods)]
}

// badgeOf sums up a row of the list.
func badgeOf(c rayslice.Cluster, certificates []rayslice.Certificate) rayslice.Badge {
	return rayslice.NewBadge(c, rayslice.Standing(certificates))
}

func verdictTone(e rayslice.Enforcement) string {
	switch e {
	case rayslice.Enforced:
		return "ok"
	case rayslice.NotEnforced:
		return "bad"
	case "":
		return "plain"
	}
	return "warn"
}

func verdictText(l *Localizer, e rayslice.Enforcement) string {
	if e == "" {
		return l.T("verdict_none")
	}
	return l.T("verdict_" + string(e))
}

func resultTone(r rayslice.CheckResult) string {
	switch r {
	case rayslice.CheckPassed:
		return "ok"
	case rayslice.CheckFailed:
		return "bad"
	case rayslice.CheckInconclusive:
		return "warn"
	}
	return "plain"
}

// whyText returns the sentence for a judgement's reason; the checks and steps it names are put into words.
func whyText(l *Localizer, r rayslice.Reason) string {
	code, _ := r.Args["code"].(string)
	check, _ := r.Args["check"].(string)
	args := Args{"Check": checkText(l, rayslice.Check(check)), "Code": stepText(l, code)}
	switch {
	case r.Code == rayslice.WhyProbeFailed:
		return l.T("why_probe_failed", args)
	case r.Code == rayslice.WhyNotMade && code != "":
		return l.T("why_not_made_because", args)
	case r.Code == rayslice.WhyNotMade:
		return l.T("why_not_made", args)
	}
	return l.Reason(r)
}

func stepText(l *Localizer, code string) string {
	if slices.Contains(rayslice.ProbeCodes(), code) {
		return l.T("step_" + code)
	}
	return code
}

func checkText(l *Localizer, check rayslice.Check) string {
	if slices.Contains(rayslice.Checks(), check) {
		return l.T("check_" + string(check))
	}
	return string(check)
}

// factArgs are the facts as sentences fill them in; what is not known is a dash, never 0.
func factArgs(facts rayslice.Facts, names ...string) Args {
	args := Args{}
	for _, name := range names {
		value := "–"
		if fact, ok := facts[name]; ok && fact != "" {
			value = cut(fmt.Sprint(fact), 80)
		}
		args[name] = value
	}
	return args
}

// askedText says what a check asked for.
func askedText(l *Localizer, row rayslice.ProofRow) string {
	args := factArgs(row.Asked, "gib", "cards", "low_mib", "high_mib", "gpus", "total", "mib", "slice_mib", "card_mib", "neighbours_mib", "least_mib", "percent")
	switch row.Check {
	case rayslice.CheckAsync, rayslice.CheckVMM, rayslice.CheckClean:
		return l.T("asked_boundary", args)
	}
	return l.T("asked_"+string(row.Check), args)
}

// seenText says what a check saw; nothing when it was not made.
func seenText(l *Localizer, row rayslice.ProofRow) string {
	if len(row.Seen) == 0 {
		return ""
	}
	args := factArgs(row.Seen, "cards", "name", "uuid", "total_mib", "gpus", "total", "head", "served_mib", "name", "cuda", "held_mib", "seconds", "with", "share")
	switch row.Check {
	case rayslice.CheckVariables:
		return variablesText(row.Seen)
	case rayslice.CheckCard, rayslice.CheckRay, rayslice.CheckNeighbours, rayslice.CheckCompute:
		return l.T("seen_"+string(row.Check), args)
	}
	if refused, _ := row.Seen["refused"].(bool); refused {
		return l.T("seen_refused", args)
	}
	return l.T("seen_served", args)
}

// variableNames are what the facts of the variables check are called in the container.
var variableNames = []struct{ fact, name string }{
	{"container", "ALIYUN_COM_GPU_MEM_CONTAINER"}, {"dev", "ALIYUN_COM_GPU_MEM_DEV"}, {"unit", "ALIYUN_COM_GPU_MEM_UNIT"},
	{"cgpu_disable", "CGPU_DISABLE"}, {"nvidia_visible", "NVIDIA_VISIBLE_DEVICES"}, {"cuda_visible", "CUDA_VISIBLE_DEVICES"},
}

func variablesText(seen rayslice.Facts) string {
	var parts []string
	for _, v := range variableNames {
		if value, ok := seen[v.fact]; ok {
			parts = append(parts, v.name+"="+cut(fmt.Sprint(value), 40))
		}
	}
	return strings.Join(parts, "  ")
}

// verificationText says in a sentence how the cluster as a whole stands.
func verificationText(p RequestPage) string {
	l := p.Locale
	badge := badgeOf(p.Cluster, p.Verification.Certificates)
	args := Args{"Workers": badge.Workers, "Enforced": badge.Enforced}
	if _, open := p.Verification.open(); open {
		return l.T("verification_runs")
	}
	switch badge.Enforcement {
	case rayslice.Enforced:
		return l.N("verification_enforced", badge.Workers)
	case rayslice.NotEnforced:
		return l.T("verification_not_enforced", args)
	case "":
		if p.Cluster.Verification == rayslice.VerificationOff {
			return l.T("verification_off")
		}
		return l.T("verification_none")
	}
	return l.T("verification_some", args)
}

// verifyLabel is what the button says: nobody verifies again what was never verified.
func verifyLabel(p RequestPage) string {
	if len(p.Verification.Runs) == 0 && len(p.Verification.Certificates) == 0 {
		return p.Locale.T("verify_now")
	}
	return p.Locale.T("verify_again")
}

// certificatesOf returns what one run gave.
func certificatesOf(p RequestPage, run rayslice.Verification) []rayslice.Certificate {
	return slices.DeleteFunc(slices.Clone(p.Verification.Certificates), func(c rayslice.Certificate) bool { return c.Run != run.Run })
}

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return cut(text, 60)
}

// VerificationReport returns what a cluster's page says of its workers' slices, as plain text for a terminal. Untrusted text in
// it has no control characters.
func VerificationReport(l *Localizer, cluster rayslice.Cluster, certificates []rayslice.Certificate) string {
	p := RequestPage{Frame: Frame{Locale: l}, Cluster: cluster, Verification: VerificationView{Certificates: certificates}}
	var b strings.Builder
	fmt.Fprintln(&b, verificationText(p))
	for _, row := range verifiedWorkers(p) {
		fmt.Fprintf(&b, "\n%s  %s\n", row.worker.Name, verdictText(l, row.verdict))
		if reason := row.certificate.Judgement.Reason; !reason.IsZero() {
			fmt.Fprintf(&b, "  %s\n", whyText(l, reason))
		}
		for _, proof := range row.certificate.Judgement.Rows {
			fmt.Fprintf(&b, "  %-28s %-12s %s → %s\n", checkText(l, proof.Check), l.T("result_"+string(proof.Result)), askedText(l, proof), seenText(l, proof))
		}
	}
	return printable(b.String())
}

// printable drops what could steer a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control)) {
			return -1
		}
		return r
	}, text)
}
