package rayslice

import (
	"regexp"
	"strconv"
	"strings"
)

// NvidiaSMIQuery is the call whose output ParseNvidiaSMI reads.
var NvidiaSMIQuery = []string{
	"nvidia-smi", "--query-gpu=index,uuid,name,memory.total,memory.used,utilization.gpu", "--format=csv",
}

// Codes of reasons why nvidia-smi says nothing about a card.
const (
	ReasonGPULost       = "gpu_lost"       // the pod has lost its card (NVIDIA/nvidia-container-toolkit#1227); a new pod gets it back
	ReasonNoCards       = "no_cards"       // the driver shows the pod no card
	ReasonSMIUnreadable = "smi_unreadable" // what came is no list of cards
)

// A CardReading is one card as a process in a pod sees it. nil = not known.
type CardReading struct {
	Index    int // on the node or in the pod, as it happens; never a key
	UUID     string
	Name     string
	TotalMiB *int
	UsedMiB  *int
	Percent  *float64 // utilisation, 0 to 100
}

// An SMIReading is what nvidia-smi said in one pod.
type SMIReading struct {
	Cards   []CardReading // more of them than the pod has slices means that there is no wall (domain facts C.7)
	Dropped int           // figures that cannot be
	Strange []string      // lines that were not understood, for admins: untrusted, cut, at most maxStrange
	Problem Reason        // why there is no card; zero = there is one
}

// Bounds of what is kept of an output that users of the pod can influence.
const (
	maxStrange     = 20
	maxStrangeLine = 200 // characters
	maxSMILine     = 4096
	maxSMICards    = 64
)

// ParseNvidiaSMI reads the CSV of NvidiaSMIQuery, with or without header and units. Lines of others between
// (Project-HAMi/HAMi#1777) are kept as strange. What is not understood is unknown, never zero and never fine.
func ParseNvidiaSMI(text string) SMIReading {
	var r SMIReading
	columns := smiColumns
	lost, none := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" {
			continue
		}
		if header, ok := smiHeader(line); ok {
			columns = header
			continue
		}
		if card, dropped, gone, ok := smiCard(line, columns); ok && len(r.Cards) < maxSMICards {
			r.Cards, r.Dropped = append(r.Cards, card), r.Dropped+dropped
			lost = lost || gone
			continue
		}
		lost = lost || smiLost.MatchString(cut(line, maxSMILine))
		none = none || strings.HasPrefix(line, "No devices were found")
		r.Strange = keepStrange(r.Strange, line)
	}
	switch {
	case lost:
		r.Problem = Reason{Code: ReasonGPULost}
	case len(r.Cards) > 0:
	case none:
		r.Problem = Reason{Code: ReasonNoCards}
	default:
		r.Problem = Reason{Code: ReasonSMIUnreadable}
	}
	return r
}

var (
	smiColumns = []string{"index", "uuid", "name", "memory.total", "memory.used", "utilization.gpu"}
	smiUUID    = regexp.MustCompile(`^(GPU|MIG)-[0-9A-Za-z/-]{4,80}$`)
	smiNumber  = regexp.MustCompile(`^([0-9]{1,18})(?: (?:MiB|%))?$`)
	smiLost    = regexp.MustCompile(`(?i)Failed to initialize NVML: Unknown Error|GPU is lost`)
)

// smiHeader returns the names of the columns without their units.
func smiHeader(line string) ([]string, bool) {
	if len(line) > maxSMILine || !strings.Contains(line, "uuid") || !strings.Contains(line, "memory.total") {
		return nil, false
	}
	columns := strings.Split(line, ",")
	for i, c := range columns {
		c, _, _ = strings.Cut(strings.TrimSpace(c), " ")
		columns[i] = c
	}
	return columns, true
}

// smiCard reads one line. Fields are split at comma and blank, as nvidia-smi writes them: a number with a comma inside is
// no number then. What is too much belongs to the name.
func smiCard(line string, columns []string) (card CardReading, dropped int, lost, ok bool) {
	if len(line) > maxSMILine {
		return card, 0, false, false
	}
	values := strings.Split(line, ", ")
	extra := len(values) - len(columns)
	if extra < 0 {
		return card, 0, false, false
	}
	var figures Figures
	card.Index = -1
	i := 0
	for _, column := range columns {
		value := values[i]
		i++
		switch column {
		case "index":
			if n, err := strconv.Atoi(value); err == nil {
				card.Index = n
			}
		case "uuid":
			card.UUID = value
		case "name":
			card.Name = cut(strings.Join(values[i-1:i+extra], ", "), maxStrangeLine)
			i += extra
			extra = 0
		case "memory.total":
			figures.LimitMiB = smiFigure(value)
		case "memory.used":
			figures.UsedMiB = smiFigure(value)
		case "utilization.gpu":
			figures.Percent = smiFigure(value)
		}
		lost = lost || smiLost.MatchString(value)
	}
	if extra != 0 || !smiUUID.MatchString(card.UUID) {
		return CardReading{}, 0, false, false
	}
	card.UsedMiB, card.TotalMiB, card.Percent, dropped = figures.Plausible()
	return card, dropped, lost, true
}

// smiFigure reads "8373 MiB", "12 %" or "8373"; [N/A] and its like are not known.
func smiFigure(text string) *float64 {
	match := smiNumber.FindStringSubmatch(strings.TrimSpace(text))
	if match == nil {
		return nil
	}
	value, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return nil
	}
	return &value
}

// keepStrange adds a line, cut to what is worth showing.
func keepStrange(lines []string, line string) []string {
	if len(lines) >= maxStrange {
		return lines
	}
	return append(lines, cut(line, maxStrangeLine))
}

// cut returns at most n characters of valid text.
func cut(text string, n int) string {
	if len(text) > 4*n {
		text = text[:4*n]
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	count := 0
	for i := range text {
		if count++; count > n {
			return text[:i] + "…"
		}
	}
	return text
}
