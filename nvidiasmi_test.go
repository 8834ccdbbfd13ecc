package rayslice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const smiHead = "index, uuid, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]\n"

func percent(p float64) *float64 { return &p }

func TestParseNvidiaSMI(t *testing.T) {
	const uuid = "GPU-7e3b5c1a-0f66-4e0b-9c2e-4a1f3c7d9e10"
	slice := CardReading{UUID: uuid, Name: "NVIDIA A10", TotalMiB: mib(8373), UsedMiB: mib(4329), Percent: percent(41)}
	without := func(change func(*CardReading)) CardReading { c := slice; change(&c); return c }
	line := "0, " + uuid + ", NVIDIA A10, 8373 MiB, 4329 MiB, 41 %\n"
	second := strings.Replace(line, "0, GPU-7", "1, GPU-8", 1)
	for name, tc := range map[string]struct {
		text string
		want SMIReading
	}{
		"as it is":                {smiHead + line, SMIReading{Cards: []CardReading{slice}}},
		"without header":          {line, SMIReading{Cards: []CardReading{slice}}},
		"without units":           {"0, " + uuid + ", NVIDIA A10, 8373, 4329, 41\n", SMIReading{Cards: []CardReading{slice}}},
		"T28 CRLF and a BOM":      {"\ufeff" + strings.ReplaceAll(smiHead+line, "\n", "\r\n"), SMIReading{Cards: []CardReading{slice}}},
		"columns in other order":  {"uuid, index, memory.used [MiB], memory.total [MiB], utilization.gpu [%], name\n" + uuid + ", 0, 4329 MiB, 8373 MiB, 41 %, NVIDIA A10\n", SMIReading{Cards: []CardReading{slice}}},
		"a name with a comma":     {"0, " + uuid + ", NVIDIA A10, rev. B, 8373 MiB, 4329 MiB, 41 %\n", SMIReading{Cards: []CardReading{without(func(c *CardReading) { c.Name = "NVIDIA A10, rev. B" })}}},
		"T28 not supported":       {"0, " + uuid + ", NVIDIA A10, 8373 MiB, [N/A], [Not Supported]\n", SMIReading{Cards: []CardReading{without(func(c *CardReading) { c.UsedMiB, c.Percent = nil, nil })}}},
		"T28 thousands in commas": {"0, " + uuid + ", NVIDIA A10, 8,373 MiB, 4,329 MiB, 41 %\n", SMIReading{Cards: []CardReading{without(func(c *CardReading) { c.TotalMiB, c.UsedMiB = nil, nil })}}},
		"T28 thousands in points": {"0, " + uuid + ", NVIDIA A10, 8.373 MiB, 4.329 MiB, 41 %\n", SMIReading{Cards: []CardReading{without(func(c *CardReading) { c.TotalMiB, c.UsedMiB = nil, nil })}}},
		"B044 more than there is": {"0, " + uuid + ", NVIDIA A10, 8373 MiB, 17592186044134 MiB, 41 %\n", SMIReading{Cards: []CardReading{without(func(c *CardReading) { c.UsedMiB = nil })}, Dropped: 1}},
		"B047 log lines around it": {"[core-lib Msg(1:2)]: Initializing\n[core-lib Warn]: no limit\n" + smiHead + line + "[core-lib Msg]: exit\n",
			SMIReading{Cards: []CardReading{slice}, Strange: []string{"[core-lib Msg(1:2)]: Initializing", "[core-lib Warn]: no limit", "[core-lib Msg]: exit"}}},
		"C.7 two cards in one pod": {smiHead + line + second, SMIReading{Cards: []CardReading{slice, without(func(c *CardReading) { c.Index, c.UUID = 1, "GPU-8"+uuid[5:] })}}},
		"B062 the pod lost its GPU": {"Failed to initialize NVML: Unknown Error\n",
			SMIReading{Strange: []string{"Failed to initialize NVML: Unknown Error"}, Problem: Reason{Code: ReasonGPULost}}},
		"the card fell off the bus": {"0, " + uuid + ", NVIDIA A10, [GPU is lost], [GPU is lost], [GPU is lost]\n",
			SMIReading{Cards: []CardReading{without(func(c *CardReading) { c.TotalMiB, c.UsedMiB, c.Percent = nil, nil, nil })}, Problem: Reason{Code: ReasonGPULost}}},
		"no card":               {"No devices were found\n", SMIReading{Strange: []string{"No devices were found"}, Problem: Reason{Code: ReasonNoCards}}},
		"T28 empty":             {"", SMIReading{Problem: Reason{Code: ReasonSMIUnreadable}}},
		"a header and no card":  {smiHead, SMIReading{Problem: Reason{Code: ReasonSMIUnreadable}}},
		"B047 nothing readable": {"<html>0, 0, 0, 0, 0, 0</html>\n", SMIReading{Strange: []string{"<html>0, 0, 0, 0, 0, 0</html>"}, Problem: Reason{Code: ReasonSMIUnreadable}}},
		"T28 one line of 1 MB": {strings.Repeat("x", 1<<20) + line,
			SMIReading{Strange: []string{strings.Repeat("x", maxStrangeLine) + "…"}, Problem: Reason{Code: ReasonSMIUnreadable}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ParseNvidiaSMI(tc.text)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func FuzzParseNvidiaSMI(f *testing.F) {
	f.Add(smiHead + "0, GPU-7e3b5c1a-0f66, NVIDIA A10, 8373 MiB, 4329 MiB, 41 %\r\n")
	f.Add("noise, noise\n0, MIG-7e3b5c1a, A100, X, [Insufficient Permissions], 17592186044134 MiB, [N/A]\n")
	f.Add("uuid,memory.total\nGPU-7e3b5c1a, 12\n")
	f.Add("name, name, uuid, memory.total\na, b, c, GPU-7e3b5c1a, 5\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := ParseNvidiaSMI(text)
		if len(r.Cards) == 0 && r.Problem.IsZero() {
			t.Error("no card and no problem")
		}
		if len(r.Strange) > maxStrange || len(r.Cards) > maxSMICards {
			t.Errorf("keeps %d strange lines and %d cards", len(r.Strange), len(r.Cards))
		}
		for _, c := range r.Cards {
			if c.UsedMiB != nil && (*c.UsedMiB < 0 || *c.UsedMiB > MaxCardMiB || c.TotalMiB != nil && *c.UsedMiB > *c.TotalMiB) {
				t.Errorf("uses %d MiB", *c.UsedMiB)
			}
			if c.Percent != nil && !(*c.Percent >= 0 && *c.Percent <= 100) {
				t.Errorf("%v %%", *c.Percent)
			}
			if !smiUUID.MatchString(c.UUID) {
				t.Errorf("UUID %q", c.UUID)
			}
		}
	})
}
