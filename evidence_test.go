package rayslice

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func framed(run, body string) string {
	return "\n-----BEGIN RAYSLICE PROBE " + run + "-----\n" + body + "\n-----END RAYSLICE PROBE " + run + "-----\n"
}

func TestDecodeEvidence(t *testing.T) {
	good := framed("run", `{"schema":1,"run":"run","version":"1.0.0","workers":[{"pod":"w"}]}`)
	for name, test := range map[string]struct {
		log      string
		wantCode string // "" = it is read
	}{
		"alone":                        {good, ""},
		"among noise (B047)":           {"[core-lib msg]: x\n(raylet) {\"schema\":9}\n" + good + "bye\n", ""},
		"behind 10 MB of log":          {strings.Repeat("a line of somebody's\n", 500_000) + good, ""},
		"tried twice, the last counts": {framed("run", `{"schema":1,"run":"run","version":"old"}`) + good, ""},
		"after half of one":            {"-----BEGIN RAYSLICE PROBE run-----\n{\"schema\":" + good, ""},
		"of another run":               {framed("other", `{"schema":1,"run":"other"}`), ProbeNoDocument},
		"under another's name":         {framed("run", `{"schema":1,"run":"other"}`), ProbeNoDocument},
		"empty":                        {"", ProbeNoDocument},
		"half":                         {good[:len(good)/2], ProbeHalf},
		"only an end":                  {good[strings.Index(good, "-----END"):], ProbeHalf},
		"no JSON":                      {framed("run", "Traceback (most recent call last):"), ProbeUnreadable},
		"half of the JSON":             {framed("run", `{"schema":1,"run":"run","workers":[`), ProbeUnreadable},
		"null":                         {framed("run", "null"), ProbeSchema},
		"numbers that are none":        {framed("run", `{"schema":1,"run":"run","workers":[{"smi":{"cards":[{"total_mib":"8373"}]}}]}`), ProbeUnreadable},
		"numbers that are too large":   {framed("run", `{"schema":1,"run":"run","workers":[{"smi":{"cards":[{"total_mib":1e400}]}}]}`), ProbeUnreadable},
		"bytes that are no text":       {framed("run", "{\"schema\":1,\"run\":\"run\",\"version\":\"\xff\"}"), ProbeUnreadable},
		"a newer schema":               {framed("run", `{"schema":2,"run":"run"}`), ProbeSchema},
		"too large":                    {framed("run", `{"schema":1,"run":"run","version":"`+strings.Repeat("x", MaxEvidence)+`"}`), ProbeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			evidence, err := DecodeEvidence(strings.NewReader(test.log), "run")
			var refused *Error
			if test.wantCode == "" {
				if err != nil || len(evidence.Workers) != 1 || evidence.Version != "1.0.0" {
					t.Fatalf("%+v, %v", evidence, err)
				}
				return
			}
			if !errors.As(err, &refused) || refused.Code != test.wantCode || refused.Kind != KindInvalid {
				t.Fatalf("%v, want %s", err, test.wantCode)
			}
			if got := Unproven(refused.Code, ""); got.Enforcement != Inconclusive || got.Reason.Args["code"] != test.wantCode {
				t.Errorf("the verdict is %+v", got)
			}
		})
	}
}

// Impossible figures are unknown, and long texts are cut (field case B044).
func TestEvidenceIsCleaned(t *testing.T) {
	body := `{"schema":1,"run":"run","workers":[{"pod":"w","smi":{"state":"ran","noise":["` + strings.Repeat("é", 3000) + `"],"cards":[
		{"uuid":"GPU-1\u0000","total_mib":8373,"used_mib":17592186044134,"utilization":-1},{"total_mib":17592186044134,"used_mib":5}]}}]}`
	evidence, err := DecodeEvidence(strings.NewReader(framed("run", body)), "run")
	if err != nil {
		t.Fatal(err)
	}
	smi := evidence.Workers[0].SMI
	want := []SMICard{{UUID: "GPU-1", TotalMiB: mib(8373)}, {UsedMiB: mib(5)}}
	if diff := cmp.Diff(want, smi.Cards); diff != "" {
		t.Errorf("cards (-want +got):\n%s", diff)
	}
	if got := len([]rune(smi.Noise[0])); got != maxEvidenceText+1 {
		t.Errorf("%d characters of noise", got)
	}
}

// The seed's own example, as the probe would have told it: the golden case from evidence to page.
func TestSeedDocument(t *testing.T) {
	file, err := os.Open("k8s/probe/testdata/seed.log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	evidence, err := DecodeEvidence(file, "seed")
	if err != nil {
		t.Fatal(err)
	}
	want := seedEvidence()
	want.Run = "seed"
	if diff := cmp.Diff(asText(t, want), asText(t, evidence)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Judge(seedTarget(), evidence); got.Enforcement != Enforced {
		t.Errorf("%s %+v", got.Enforcement, got.Reason)
	}
}

func asText(t *testing.T, evidence Evidence) string {
	t.Helper()
	raw, err := json.MarshalIndent(evidence, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Two clients of 8 GiB each on the real card held all they asked for at once, and neither saw the other's memory.
func TestRealNeighbours(t *testing.T) {
	var seen []NeighboursEvidence
	for _, name := range []string{"neighbours-a", "neighbours-b"} {
		seen = append(seen, realEvidence(t, name).Workers[0].Neighbours)
	}
	overlap := min(seen[0].To, seen[1].To) - max(seen[0].From, seen[1].From)
	if overlap < leastOverlap {
		t.Errorf("they held memory together for %.1f s", overlap)
	}
	for _, n := range seen {
		if n.HeldMiB != 7168 || *n.FreeBeforeMiB-n.HeldMiB != *n.FreeDuringMiB {
			t.Errorf("held %d MiB; free %d, then %d", n.HeldMiB, *n.FreeBeforeMiB, *n.FreeDuringMiB)
		}
	}
}

func FuzzDecodeEvidence(f *testing.F) {
	f.Add(framed("run", `{"schema":1,"run":"run","ray":{"gpus":1e9,"nodes":[{"gpus":-1}]},"workers":[{"pod":"w-1","allocation":[{"served":9223372036854775807}]}]}`))
	f.Add(framed("run", asSeed()))
	f.Add("-----BEGIN RAYSLICE PROBE run-----")
	f.Fuzz(func(t *testing.T, log string) {
		evidence, err := DecodeEvidence(strings.NewReader(log), "run")
		if err != nil {
			if KindOf(err) != KindInvalid {
				t.Fatal(err)
			}
			return
		}
		if _, err := json.Marshal(Judge(seedTarget(), evidence)); err != nil {
			t.Fatal(err)
		}
	})
}

func asSeed() string {
	evidence := seedEvidence()
	raw, err := json.Marshal(evidence)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(raw)
}
