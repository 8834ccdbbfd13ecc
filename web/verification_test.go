package web

import (
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"github.com/rayslice/rayslice"
)

// TestSeedFromEvidenceToPage is the example that rayslice began with: 8 GiB of an A10's 22, 8373 MiB in all, 4 GiB work and
// 16 GiB are refused.
func TestSeedFromEvidenceToPage(t *testing.T) {
	for _, language := range Languages() {
		frame := SampleFrame(NewLocalizer(language.Code), "/clusters/k5d2m7qxw3ab", time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
		var html strings.Builder
		for _, sample := range verificationSamples() {
			if sample.Name == "verified" {
				if err := sample.View(frame).Render(t.Context(), &html); err != nil {
					t.Fatal(err)
				}
			}
		}
		page, err := goquery.NewDocumentFromReader(strings.NewReader(html.String()))
		if err != nil {
			t.Fatal(err)
		}
		l := frame.Locale
		certificate := page.Find("details.certificate").First()
		if got := certificate.Find("summary .badge").Text(); got != l.T("verdict_enforced") {
			t.Errorf("%s: verdict %q", language.Code, got)
		}
		text := strings.Join(strings.Fields(certificate.Find("table.proof").Text()), " ")
		for _, fact := range []string{"8373 MiB", "8341", "8405", "4096 MiB", "16384 MiB", "7936 MiB", "CUDA_ERROR_OUT_OF_MEMORY (2)", "23028", "ALIYUN_COM_GPU_MEM_CONTAINER=8"} {
			if !strings.Contains(strings.ReplaceAll(text, "（2）", " (2)"), fact) {
				t.Errorf("%s: the page lacks %q:\n%s", language.Code, fact, text)
			}
		}
		if n := certificate.Find(".badge.bad").Length(); n != 0 {
			t.Errorf("%s: %d breaches in an enforced slice", language.Code, n)
		}
	}
}

func TestBadgeIsTheWorst(t *testing.T) {
	worker := func(uid string) rayslice.Worker {
		return rayslice.Worker{Name: uid, UID: uid, Node: "n", Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}}
	}
	cert := func(uid string, e rayslice.Enforcement) rayslice.Certificate {
		return rayslice.Certificate{Target: rayslice.Target{PodUID: uid, Node: "n"}, Judgement: rayslice.Judgement{Enforcement: e}}
	}
	c := rayslice.Cluster{Workers: []rayslice.Worker{worker("a"), worker("b"), {Name: "cpu", UID: "c"}}}
	read := cert("a", rayslice.Inconclusive)
	read.Judgement.InUse = true
	cases := map[string]struct {
		certificates []rayslice.Certificate
		want         rayslice.Badge
	}{
		"a look in use takes nothing back": {[]rayslice.Certificate{read, cert("a", rayslice.Enforced), cert("b", rayslice.Enforced)}, rayslice.Badge{Enforcement: rayslice.Enforced, Workers: 2, Enforced: 2}},
		"a look in use that is all":        {[]rayslice.Certificate{read, cert("b", rayslice.Enforced)}, rayslice.Badge{Enforcement: rayslice.Inconclusive, Workers: 2, Enforced: 1}},
		"never verified":                   {nil, rayslice.Badge{Workers: 2}},
		"all enforced":                     {[]rayslice.Certificate{cert("a", rayslice.Enforced), cert("b", rayslice.Enforced)}, rayslice.Badge{Enforcement: rayslice.Enforced, Workers: 2, Enforced: 2}},
		"one is missing":                   {[]rayslice.Certificate{cert("a", rayslice.Enforced)}, rayslice.Badge{Enforcement: rayslice.Inconclusive, Workers: 2, Enforced: 1}},
		"one is not enforced":              {[]rayslice.Certificate{cert("a", rayslice.NotEnforced), cert("b", rayslice.Enforced)}, rayslice.Badge{Enforcement: rayslice.NotEnforced, Workers: 2, Enforced: 1}},
		"one of another pod":               {[]rayslice.Certificate{cert("a", rayslice.Enforced), cert("old", rayslice.NotEnforced)}, rayslice.Badge{Enforcement: rayslice.Inconclusive, Workers: 2, Enforced: 1}},
		"latest of a pod wins":             {[]rayslice.Certificate{cert("a", rayslice.Enforced), cert("a", rayslice.NotEnforced), cert("b", rayslice.Enforced)}, rayslice.Badge{Enforcement: rayslice.Enforced, Workers: 2, Enforced: 2}},
	}
	for name, tc := range cases {
		if got := badgeOf(c, tc.certificates); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestTheFirstVerificationIsNotAgain words the button by whether anybody has looked before.
func TestTheFirstVerificationIsNotAgain(t *testing.T) {
	for _, language := range Languages() {
		frame := SampleFrame(NewLocalizer(language.Code), "/clusters/k5d2m7qxw3ab", time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
		for _, sample := range verificationSamples() {
			key := map[string]string{"verification-off": "verify_now", "verified": "verify_again"}[sample.Name]
			if key == "" {
				continue
			}
			var html strings.Builder
			if err := sample.View(frame).Render(t.Context(), &html); err != nil {
				t.Fatal(err)
			}
			page, err := goquery.NewDocumentFromReader(strings.NewReader(html.String()))
			if err != nil {
				t.Fatal(err)
			}
			if got := page.Find("button#verify").Text(); got != frame.Locale.T(key) {
				t.Errorf("%s, %s: the button says %q", sample.Name, language.Code, got)
			}
		}
	}
}
