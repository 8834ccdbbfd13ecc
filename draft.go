package rayslice

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A RequestDraft is what a person may set when asking for a cluster. DecodeDraft reads it from the API's body and from
// the file of `rayslice render -f`.
type RequestDraft struct {
	Team        string            `json:"team"`
	Name        string            `json:"name"`    // display name, any script; Kubernetes never sees it as a name
	Purpose     string            `json:"purpose"` // what it is for
	Hours       int               `json:"hours"`   // lifetime from approval, hours
	Head        Head              `json:"head"`
	Groups      []Group           `json:"groups"`
	Image       string            `json:"image"`        // image reference; "" = the catalogue's first
	RayVersion  string            `json:"ray_version"`  // "2.52.0"; "" = the image's
	Env         map[string]string `json:"env"`          // set on head and workers
	PullSecrets []string          `json:"pull_secrets"` // names of image pull secrets in the team's namespace
	Unverified  bool              `json:"unverified"`   // it becomes ready without showing that its slices are enforced
}

// Head is the size of the head pod. It never has a GPU.
type Head struct {
	CPU       int `json:"cpu"`        // CPUs
	MemoryGiB int `json:"memory_gib"` // GiB
}

// Group is one worker group: workers that are all alike.
type Group struct {
	Name       string `json:"name"` // "" = made from pool and size
	Slice             // what each worker gets; its fields stand beside the others in JSON
	Workers    int    `json:"workers"`     // how many to start with
	MinWorkers int    `json:"min_workers"` // with MaxWorkers: autoscaling between the two; both 0 = exactly Workers
	MaxWorkers int    `json:"max_workers"`
	CPU        int    `json:"cpu"`        // CPUs of one worker
	MemoryGiB  int    `json:"memory_gib"` // main memory of one worker, GiB
	Spread     bool   `json:"spread"`     // workers must be on different nodes, so on different cards
}

// Defaults of what a person may leave out.
const (
	DefaultHours           = 8
	DefaultHeadCPU         = 2
	DefaultHeadMemoryGiB   = 8
	DefaultWorkerCPU       = 4
	DefaultWorkerMemoryGiB = 16
)

// Bounds of free text and lists.
const (
	MaxNameLength     = 80
	MaxPurposeLength  = 1000
	MaxEnvVars        = 50
	MaxEnvValueLength = 4096 // bytes
	MaxPullSecrets    = 5
)

// Codes of field errors; the sentences stand in the catalogues as field_<code>.
const (
	CodeRequired         = "required"
	CodeType             = "type"              // wrong JSON type or not a whole number; Args: want
	CodeUnknownField     = "unknown_field"     // no such field
	CodeNotJSON          = "not_json"          // not one JSON object
	CodeGroupsTwice      = "groups_twice"      // groups, and a group's fields at the top as well
	CodeRange            = "range"             // Args: min, max
	CodeTooLong          = "too_long"          // Args: max
	CodeCharacters       = "characters"        // has characters that are not allowed; Args: allowed
	CodeTeamUnknown      = "team_unknown"      // not a team of yours
	CodePoolUnknown      = "pool_unknown"      // Args: pools
	CodePoolClosed       = "pool_closed"       // Args: pool; the pool enforces nothing or is blocked
	CodeSizeNotOffered   = "size_not_offered"  // Args: sizes
	CodeTooLargeForCard  = "too_large_card"    // Args: largest
	CodeWholeNoGiB       = "whole_no_gib"      // a whole card has no slice size
	CodeCoreStep         = "core_step"         // core_percent is a multiple of 5, from 5 to 100
	CodeCoreNotHere      = "core_not_here"     // pool does not divide compute
	CodeCoreRequired     = "core_required"     // core_mem pools need it
	CodeCardsRange       = "cards_range"       // Args: max; hint: use more workers
	CodeReservedName     = "reserved_name"     // Args: name
	CodeDuplicate        = "duplicate"         // Args: value
	CodeTooManyWorkers   = "too_many_workers"  // Args: max, asked
	CodeMinMax           = "min_max"           // min ≤ workers ≤ max does not hold
	CodeHeadMemoryFloor  = "head_memory_floor" // Args: min; heads below it are killed
	CodeImageNotAllowed  = "image_not_allowed" // Args: prefixes
	CodeRayVersionFormat = "ray_version_format"
	CodeRayVersionNeeded = "ray_version_needed" // image is not in the catalogue, so its Ray version must be given
)

// reservedEnv are names that would change which GPU a worker sees, or where Ray connects (domain facts E.4).
var (
	reservedEnv         = []string{"CUDA_VISIBLE_DEVICES", "CUDA_DISABLE_CONTROL", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "FQ_RAY_IP", "GPU_UTIL_PER_DEVICE", "AMP_VGPU_DEV_COUNT"}
	reservedEnvPrefixes = []string{"NVIDIA_", "ALIYUN_", "CGPU_", "CUDA_MPS_", "CUDA_DEVICE_", "RAY_", "KUBERAY_", "KUBERNETES_"}

	allowedRayEnv = regexp.MustCompile(`^RAY_(DATA|TRAIN|TUNE|SERVE|RLLIB|AIR)_[A-Z0-9_]+$`)
	envName       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	groupName     = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`) // pod names are cut at 50 characters (domain facts B.2)
	secretName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	imageRef      = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,254}$`)
	rayVersion    = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}$`)
)

// ReservedEnv reports whether people may not set the variable: it could undo the slice or cut the worker off Ray.
func ReservedEnv(name string) bool {
	upper := strings.ToUpper(name)
	if allowedRayEnv.MatchString(upper) {
		return false
	}
	for _, p := range reservedEnvPrefixes {
		if strings.HasPrefix(upper, p) {
			return true
		}
	}
	for _, n := range reservedEnv {
		if upper == n {
			return true
		}
	}
	return false
}

// Normalize fills what follows from the rest: image and Ray version from the catalogue, group names, and the bounds of
// groups that do not scale. It never changes what was set, and doing it twice is doing it once.
func (d *RequestDraft) Normalize(c Catalogue) {
	d.Name, d.Purpose = strings.TrimSpace(d.Name), strings.TrimSpace(d.Purpose)
	if d.Image == "" && len(c.Images) > 0 {
		d.Image = c.Images[0].Ref
	}
	if image, ok := c.Image(d.Image); ok && d.RayVersion == "" {
		d.RayVersion = image.RayVersion
	}
	for i := range d.Groups {
		d.Groups[i].normalize()
	}
	d.nameGroups()
}

func (g *Group) normalize() {
	if g.MinWorkers == 0 && g.MaxWorkers == 0 {
		g.MinWorkers, g.MaxWorkers = g.Workers, g.Workers
	}
}

// nameGroups names the groups that have no name after their slice, each differently.
func (d *RequestDraft) nameGroups() {
	taken := map[string]bool{}
	for _, g := range d.Groups {
		taken[g.Name] = true
	}
	for i := range d.Groups {
		g := &d.Groups[i]
		if g.Name != "" {
			continue
		}
		base := g.Slice.groupName()
		g.Name = base
		for n := 2; taken[g.Name]; n++ {
			g.Name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[g.Name] = true
	}
}

func (s Slice) groupName() string {
	pool := s.Pool
	if len(pool) > 10 {
		pool = strings.TrimRight(pool[:10], "-")
	}
	switch {
	case s.IsZero():
		return "cpu"
	case s.Whole():
		return fmt.Sprintf("%s-x%d", pool, s.Cards)
	}
	return fmt.Sprintf("%s-%dg", pool, s.GiB*s.Cards)
}

// Charge returns what the draft costs: Σ over groups of the most workers × slice. It is taken at the maximum, because
// an autoscaler may go there at any time (ray-project/kuberay#560).
func (d RequestDraft) Charge() Charge {
	var total Charge
	for _, g := range d.Groups {
		total = total.Add(g.Slice.Charge().Times(g.MaxWorkers))
	}
	return total
}

// MaxWorkers returns the most workers all groups may have together.
func (d RequestDraft) MaxWorkers() int {
	n := 0
	for _, g := range d.Groups {
		n += g.MaxWorkers
	}
	return n
}

// MinWorkers returns how many workers must have joined before the cluster is ready.
func (d RequestDraft) MinWorkers() int {
	n := 0
	for _, g := range d.Groups {
		n += g.MinWorkers
	}
	return n
}

// Autoscaled reports whether any group may grow or shrink by itself.
func (d RequestDraft) Autoscaled() bool {
	for _, g := range d.Groups {
		if g.MinWorkers != g.MaxWorkers {
			return true
		}
	}
	return false
}

// Validate checks a normalized draft against the catalogue and names every bad field; nil when there is none. Whether
// the person may ask in this team, and whether quota allows it, is decided by the store.
func (d RequestDraft) Validate(c Catalogue) error {
	v := &validation{}
	v.text("team", d.Team, 63, true)
	v.text("name", d.Name, MaxNameLength, true)
	v.text("purpose", d.Purpose, MaxPurposeLength, false)
	v.within("hours", d.Hours, 1, c.Limits.MaxHours)
	v.head(d.Head, c.Limits)
	v.image(d, c)
	v.env(d.Env)
	v.pullSecrets(d.PullSecrets)
	v.groups(d.Groups, c)
	return Invalid(v.fields...)
}

// validation collects bad fields.
type validation struct{ fields []FieldError }

func (v *validation) bad(field, code string, args map[string]any) {
	v.fields = append(v.fields, FieldError{Field: field, Code: code, Args: args})
}

func (v *validation) within(field string, n, least, most int) {
	if n < least || n > most {
		v.bad(field, CodeRange, map[string]any{"min": least, "max": most})
	}
}

// text refuses invalid UTF-8 and control characters, which Postgres or a log line would trip over; tabs and new lines
// are allowed in longer text.
func (v *validation) text(field, s string, most int, required bool) {
	switch {
	case required && !strings.ContainsFunc(s, visible):
		v.bad(field, CodeRequired, nil)
	case utf8.RuneCountInString(s) > most:
		v.bad(field, CodeTooLong, map[string]any{"max": most})
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && (most <= MaxNameLength || !strings.ContainsRune("\n\r\t", r))
	}):
		v.bad(field, CodeCharacters, nil)
	}
}

// visible reports whether people can see the rune; a name of zero-width characters could not be clicked.
func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

func (v *validation) head(h Head, l Limits) {
	v.within("head.cpu", h.CPU, 1, l.MaxCPU)
	if h.MemoryGiB < l.MinHeadMemoryGiB {
		v.bad("head.memory_gib", CodeHeadMemoryFloor, map[string]any{"min": l.MinHeadMemoryGiB})
		return
	}
	v.within("head.memory_gib", h.MemoryGiB, l.MinHeadMemoryGiB, l.MaxMemoryGiB)
}

func (v *validation) image(d RequestDraft, c Catalogue) {
	_, known := c.Image(d.Image)
	switch {
	case d.Image == "":
		v.bad("image", CodeRequired, nil)
	case !imageRef.MatchString(d.Image):
		v.bad("image", CodeCharacters, nil)
	case !known && !hasAnyPrefix(d.Image, c.ImagePrefixes):
		v.bad("image", CodeImageNotAllowed, map[string]any{"prefixes": strings.Join(c.ImagePrefixes, ", ")})
	case d.RayVersion == "":
		v.bad("ray_version", CodeRayVersionNeeded, nil)
	case !rayVersion.MatchString(d.RayVersion):
		v.bad("ray_version", CodeRayVersionFormat, nil)
	}
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func (v *validation) env(env map[string]string) {
	if len(env) > MaxEnvVars {
		v.bad("env", CodeRange, map[string]any{"min": 0, "max": MaxEnvVars})
		return
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value, field := env[name], "env."+name
		switch {
		case !envName.MatchString(name):
			v.bad("env", CodeCharacters, nil)
		case ReservedEnv(name):
			v.bad(field, CodeReservedName, map[string]any{"name": name})
		case len(value) > MaxEnvValueLength:
			v.bad(field, CodeTooLong, map[string]any{"max": MaxEnvValueLength})
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			v.bad(field, CodeCharacters, nil)
		}
	}
}

func (v *validation) pullSecrets(names []string) {
	if len(names) > MaxPullSecrets {
		v.bad("pull_secrets", CodeRange, map[string]any{"min": 0, "max": MaxPullSecrets})
		return
	}
	for i, n := range names {
		if !secretName.MatchString(n) {
			v.bad(fmt.Sprintf("pull_secrets[%d]", i), CodeCharacters, nil)
		}
	}
}

func (v *validation) groups(groups []Group, c Catalogue) {
	if len(groups) < 1 || len(groups) > c.Limits.MaxGroups {
		v.bad("groups", CodeRange, map[string]any{"min": 1, "max": c.Limits.MaxGroups})
		return
	}
	seen, total := map[string]bool{}, 0
	for i, g := range groups {
		field := groupField(i)
		if seen[g.Name] {
			v.bad(field+".name", CodeDuplicate, map[string]any{"value": g.Name}) // KubeRay without webhook does not catch it (domain facts B.2)
		}
		seen[g.Name] = true
		v.group(field, g, c)
		total += min(max(g.MaxWorkers, 0), c.Limits.MaxWorkers+1) // bounded, so that it cannot overflow
	}
	if total > c.Limits.MaxWorkers && !v.has("workers") {
		v.bad("groups", CodeTooManyWorkers, map[string]any{"max": c.Limits.MaxWorkers, "asked": total})
	}
}

func (v *validation) has(suffix string) bool {
	for _, f := range v.fields {
		if strings.HasSuffix(f.Field, suffix) {
			return true
		}
	}
	return false
}

func (v *validation) group(field string, g Group, c Catalogue) {
	if !groupName.MatchString(g.Name) || g.Name == "headgroup" {
		v.bad(field+".name", CodeCharacters, nil)
	}
	v.within(field+".cpu", g.CPU, 1, c.Limits.MaxCPU)
	v.within(field+".memory_gib", g.MemoryGiB, 1, c.Limits.MaxMemoryGiB)
	v.within(field+".workers", g.Workers, 1, c.Limits.MaxWorkers)
	if g.MinWorkers != g.Workers || g.MaxWorkers != g.Workers {
		v.within(field+".max_workers", g.MaxWorkers, 1, c.Limits.MaxWorkers)
		if g.MinWorkers < 0 || g.MinWorkers > g.Workers || g.Workers > g.MaxWorkers {
			v.bad(field+".min_workers", CodeMinMax, nil)
		}
	}
	v.slice(field, g.Slice, c)
}

func (v *validation) slice(field string, s Slice, c Catalogue) {
	if s.IsZero() {
		if s != (Slice{}) {
			v.bad(field+".pool", CodeRequired, nil)
		}
		return
	}
	p, ok := c.Pool(s.Pool)
	switch {
	case !ok:
		v.bad(field+".pool", CodePoolUnknown, map[string]any{"pools": poolNames(c)})
		return
	case !p.Offered():
		v.bad(field+".pool", CodePoolClosed, map[string]any{"pool": p.Name})
		return
	}
	v.size(field, s, p)
	v.core(field+".core_percent", s, p)
	if s.Cards < 1 || s.Cards > max(1, p.MaxCards) {
		v.bad(field+".per_pod", CodeCardsRange, map[string]any{"max": max(1, p.MaxCards)})
	}
}

func (v *validation) size(field string, s Slice, p Pool) {
	switch {
	case p.Mode == ModeWhole && s.GiB != 0:
		v.bad(field+".slice_gib", CodeWholeNoGiB, nil)
	case p.Mode == ModeWhole:
	case s.GiB > p.CardGiB:
		v.bad(field+".slice_gib", CodeTooLargeForCard, map[string]any{"largest": p.CardGiB, "model": p.Model})
	case !p.Offers(s.GiB):
		v.bad(field+".slice_gib", CodeSizeNotOffered, map[string]any{"sizes": joinInts(p.Sizes)})
	}
}

// core checks the compute share: a multiple of 5 from 5 to 100, and only where compute is divided (domain facts A.2).
func (v *validation) core(field string, s Slice, p Pool) {
	switch {
	case p.Mode != ModeCoreMem && s.CorePercent != 0:
		v.bad(field, CodeCoreNotHere, map[string]any{"pool": p.Name})
	case p.Mode == ModeCoreMem && s.CorePercent == 0:
		v.bad(field, CodeCoreRequired, nil) // memory-only pods are refused on such nodes (domain facts, section 0)
	case p.Mode == ModeCoreMem && (s.CorePercent < 5 || s.CorePercent > 100 || s.CorePercent%5 != 0):
		v.bad(field, CodeCoreStep, nil)
	}
}

func poolNames(c Catalogue) string {
	var names []string
	for _, p := range c.Pools {
		if p.Offered() {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, ", ")
}

func joinInts(ns []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ns), " ", ", "), "[]")
}
