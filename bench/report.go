// Package bench is what the benchmarks share: a sandbox of their own, requests to work on, and a report that has no
// numbers without what they were measured on.
package bench

import (
	"bufio"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
)

// A Report is numbers together with what somebody else needs to judge them: machine, versions, settings. Big numbers were
// once published without, and nobody could use them (ray-project/kuberay#2402).
type Report struct {
	title   string
	needs   []string // settings without which nothing is printed
	facts   []fact
	results []fact
}

type fact struct{ name, value string }

// NewReport returns a report that already knows the machine and this program's Go. needs names the settings and versions
// that have to be Set before it prints.
func NewReport(title string, needs ...string) *Report {
	r := &Report{title: title, needs: append([]string{"CPU", "cores", "memory", "kernel", "load before", "Go"}, needs...)}
	r.Set("CPU", procField("/proc/cpuinfo", "model name"))
	r.Set("cores", runtime.NumCPU())
	r.Set("memory", procField("/proc/meminfo", "MemTotal"))
	r.Set("kernel", kernel())
	r.Set("load before", LoadAverage())
	r.Set("Go", runtime.Version())
	return r
}

// Set notes a setting, a version or a size.
func (r *Report) Set(name string, value any) {
	r.facts = append(r.facts, fact{name, strings.TrimSpace(fmt.Sprint(value))})
}

// SetPrograms notes the versions of programs in the folder bin, as the Go toolchain stamped them.
func (r *Report) SetPrograms(bin string, programs ...string) {
	for _, program := range programs {
		version := ""
		if info, err := buildinfo.ReadFile(filepath.Join(bin, program)); err == nil {
			version = info.Main.Version
		}
		r.Set(program, version)
	}
}

// Result notes something that was measured.
func (r *Report) Result(name, format string, args ...any) {
	r.results = append(r.results, fact{name, fmt.Sprintf(format, args...)})
}

// Print writes the report, or refuses and names what is not known.
func (r *Report) Print(w io.Writer) error {
	if missing := r.missing(); len(missing) > 0 {
		return fmt.Errorf("no numbers without what they were measured on: %s not known", strings.Join(missing, ", "))
	}
	if len(r.results) == 0 {
		return errors.New("nothing was measured")
	}
	r.Set("load after", LoadAverage())
	fmt.Fprintf(w, "\n%s\n\n", r.title)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.facts {
		fmt.Fprintf(table, "  %s\t%s\n", f.name, f.value)
	}
	fmt.Fprintln(table)
	for _, f := range r.results {
		fmt.Fprintf(table, "  %s\t%s\n", f.name, f.value)
	}
	return table.Flush()
}

// missing names what is needed and was not set, or set to nothing.
func (r *Report) missing() []string {
	known := map[string]bool{}
	for _, f := range r.facts {
		known[f.name] = f.value != "" && f.value != "0" && f.value != "unknown"
	}
	var missing []string
	for _, name := range r.needs {
		if !known[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// LoadAverage is the kernel's, over 1, 5 and 15 minutes.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 3 {
		return strings.Join(fields[:3], " ")
	}
	return ""
}

// procField returns the first value with this name in a file of lines "name: value".
func procField(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func kernel() string {
	var name syscall.Utsname
	if syscall.Uname(&name) != nil {
		return ""
	}
	var text strings.Builder
	for _, c := range name.Release {
		if c == 0 {
			break
		}
		text.WriteByte(byte(c))
	}
	return text.String()
}
