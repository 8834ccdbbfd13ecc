package web

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rayslice/rayslice"
)

// MaxFormGroups is how many worker groups the form has room for; the API takes more.
const MaxFormGroups = 3

// SizeCPU is the size of a worker without a GPU.
const SizeCPU = "cpu"

// ImageCustom is the Image of a form that names an image of its own.
const ImageCustom = "custom"

// RequestForm is the form of NewRequestPage as it was typed. The names of its inputs are the paths of
// rayslice.FieldError, e.g. "groups[0].workers", so an error finds its input.
type RequestForm struct {
	Team          string
	Name          string
	Purpose       string
	Hours         string
	Image         string // reference of a catalogue image, or ImageCustom
	CustomImage   string // counts when Image is ImageCustom
	RayVersion    string
	HeadCPU       string
	HeadMemoryGiB string
	Env           string // lines of NAME=value
	Unverified    bool   // ready without showing that the slices are enforced
	PullSecrets   string // names, separated by commas, spaces or new lines
	Groups        []GroupForm
}

// GroupForm is one worker group of the form.
type GroupForm struct {
	Size        string // "a10:8" (pool and GiB), "a100:whole", SizeCPU; "" = no such group
	CorePercent string
	Cards       string
	Workers     string
	MinWorkers  string // "" = as Workers
	MaxWorkers  string // "" = as Workers
	CPU         string
	MemoryGiB   string
	Spread      bool
}

// NewRequestForm returns the form as a newcomer finds it: the smallest slice of the first open pool.
func NewRequestForm(catalogue rayslice.Catalogue, team string) RequestForm {
	f := RequestForm{Team: team, Hours: strconv.Itoa(rayslice.DefaultHours),
		HeadCPU: strconv.Itoa(rayslice.DefaultHeadCPU), HeadMemoryGiB: strconv.Itoa(rayslice.DefaultHeadMemoryGiB),
		Groups: []GroupForm{newGroupForm()}}
	if most := catalogue.Limits.MaxHours; most > 0 {
		f.Hours = strconv.Itoa(min(rayslice.DefaultHours, most))
	}
	if len(catalogue.Images) > 0 {
		f.Image = catalogue.Images[0].Ref
	}
	f.Groups[0].Size = SizeCPU
	for _, p := range catalogue.Pools {
		if p.Offered() && len(p.Sizes) > 0 {
			f.Groups[0].Size = SizeValue(p, p.Sizes[0])
			break
		}
	}
	return f
}

// AtSize returns what the form's first group asks for, with another size; gib 0 is whole cards. What was not typed, or cannot be
// read, is taken to be as little as may be asked for.
func (f RequestForm) AtSize(pool rayslice.Pool, gib, most int) rayslice.RequestDraft {
	first := groupAt(f, 0)
	first.Size = SizeValue(pool, gib)
	f.Groups = []GroupForm{first}
	draft, _ := f.Draft() // what is wrong with it is said elsewhere
	if len(draft.Groups) == 0 {
		draft.Groups = []rayslice.Group{{}}
	}
	g := &draft.Groups[0]
	core := 0
	if pool.Mode == rayslice.ModeCoreMem {
		core = max(5, min(g.CorePercent, 100))
	}
	g.Slice = rayslice.Slice{Pool: pool.Name, GiB: gib, CorePercent: core, Cards: max(1, min(g.Slice.Cards, pool.MaxCards))}
	g.MaxWorkers = max(1, min(max(g.Workers, g.MaxWorkers), most))
	return draft
}

func newGroupForm() GroupForm {
	return GroupForm{Workers: "1", CPU: strconv.Itoa(rayslice.DefaultWorkerCPU), MemoryGiB: strconv.Itoa(rayslice.DefaultWorkerMemoryGiB)}
}

// SizeValue returns the value of a size's radio button; gib 0 is a whole card.
func SizeValue(p rayslice.Pool, gib int) string {
	if gib == 0 {
		return p.Name + ":whole"
	}
	return fmt.Sprintf("%s:%d", p.Name, gib)
}

// ParseRequestForm reads a posted form, or an address that has some of its values: what is not there gets its default.
// Groups whose size was not chosen are left out, the first one excepted.
func ParseRequestForm(v url.Values) RequestForm {
	get := func(name, otherwise string) string {
		if !v.Has(name) {
			return otherwise
		}
		return strings.TrimSpace(v.Get(name))
	}
	f := RequestForm{
		Team: get("team", ""), Name: get("name", ""), Purpose: get("purpose", ""), Hours: get("hours", strconv.Itoa(rayslice.DefaultHours)),
		Image: get("image", ""), CustomImage: get("custom_image", ""), RayVersion: get("ray_version", ""),
		HeadCPU: get("head.cpu", strconv.Itoa(rayslice.DefaultHeadCPU)), HeadMemoryGiB: get("head.memory_gib", strconv.Itoa(rayslice.DefaultHeadMemoryGiB)),
		Env: strings.ReplaceAll(v.Get("env"), "\r\n", "\n"), PullSecrets: get("pull_secrets", ""), Unverified: v.Get("unverified") == "1",
	}
	for i := range MaxFormGroups {
		usual := newGroupForm()
		at := func(name, otherwise string) string { return get(path(i, name), otherwise) }
		g := GroupForm{
			Size: at("size", ""), CorePercent: at("core_percent", ""), Cards: at("per_pod", ""), Workers: at("workers", usual.Workers),
			MinWorkers: at("min_workers", ""), MaxWorkers: at("max_workers", ""), CPU: at("cpu", usual.CPU), MemoryGiB: at("memory_gib", usual.MemoryGiB),
			Spread: at("spread", "") != "",
		}
		if i == 0 || g.Size != "" {
			f.Groups = append(f.Groups, g)
		}
	}
	return f
}

// FormFromDraft returns the form that asks for the same again.
func FormFromDraft(d rayslice.RequestDraft, catalogue rayslice.Catalogue) RequestForm {
	f := NewRequestForm(catalogue, d.Team)
	f.Name, f.Purpose, f.Hours = d.Name, d.Purpose, strconv.Itoa(d.Hours)
	f.HeadCPU, f.HeadMemoryGiB = strconv.Itoa(d.Head.CPU), strconv.Itoa(d.Head.MemoryGiB)
	f.Unverified = d.Unverified
	f.Image, f.PullSecrets = d.Image, strings.Join(d.PullSecrets, ", ")
	if _, ok := catalogue.Image(d.Image); !ok {
		f.Image, f.CustomImage, f.RayVersion = ImageCustom, d.Image, d.RayVersion
	}
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		f.Env += name + "=" + d.Env[name] + "\n"
	}
	f.Groups = nil
	for _, g := range d.Groups[:min(len(d.Groups), MaxFormGroups)] {
		f.Groups = append(f.Groups, groupFormFrom(g))
	}
	return f
}

func groupFormFrom(g rayslice.Group) GroupForm {
	f := GroupForm{Size: SizeCPU, Workers: strconv.Itoa(g.Workers), CPU: strconv.Itoa(g.CPU), MemoryGiB: strconv.Itoa(g.MemoryGiB), Spread: g.Spread}
	switch {
	case !g.IsZero():
		f.Size = SizeValue(rayslice.Pool{Name: g.Pool}, g.GiB)
	case g.Slice != (rayslice.Slice{}): // a slice that no pool has: somebody has to choose
		f.Size = ""
	}
	if g.Cards > 1 {
		f.Cards = strconv.Itoa(g.Cards)
	}
	if g.CorePercent > 0 {
		f.CorePercent = strconv.Itoa(g.CorePercent)
	}
	if g.MinWorkers != g.MaxWorkers {
		f.MinWorkers, f.MaxWorkers = strconv.Itoa(g.MinWorkers), strconv.Itoa(g.MaxWorkers)
	}
	return f
}

// Draft turns the form into a draft, which the caller still normalizes and validates. The error is an *rayslice.Error
// of KindInvalid that names every input that is not what it should be, e.g. letters where a number belongs.
func (f RequestForm) Draft() (rayslice.RequestDraft, error) {
	p := &formParser{}
	d := rayslice.RequestDraft{
		Team: f.Team, Name: f.Name, Purpose: f.Purpose, Image: f.Image,
		Hours:       p.number("hours", f.Hours, rayslice.DefaultHours),
		Head:        rayslice.Head{CPU: p.number("head.cpu", f.HeadCPU, rayslice.DefaultHeadCPU), MemoryGiB: p.number("head.memory_gib", f.HeadMemoryGiB, rayslice.DefaultHeadMemoryGiB)},
		Env:         p.env(f.Env),
		Unverified:  f.Unverified,
		PullSecrets: strings.FieldsFunc(f.PullSecrets, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }),
	}
	if f.Image == ImageCustom {
		d.Image, d.RayVersion = f.CustomImage, f.RayVersion
		if f.CustomImage == "" {
			p.refuse("image", rayslice.CodeRequired, nil)
		}
	}
	for i, g := range f.Groups {
		d.Groups = append(d.Groups, p.group(fmt.Sprintf("groups[%d]", i), g))
	}
	return d, rayslice.Invalid(p.bad...)
}

type formParser struct{ bad []rayslice.FieldError }

func (p *formParser) refuse(field, code string, args map[string]any) {
	p.bad = append(p.bad, rayslice.FieldError{Field: field, Code: code, Args: args})
}

// number reads a whole number; "" means otherwise.
func (p *formParser) number(field, s string, otherwise int) int {
	if s == "" {
		return otherwise
	}
	n, err := wholeNumber(s)
	if err != nil {
		p.refuse(field, rayslice.CodeType, map[string]any{"want": "int", "got": "text"})
		return 1 // so that nothing else is wrong because of it
	}
	return n
}

func (p *formParser) env(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		name = strings.TrimSpace(name)
		switch {
		case name == "" && !ok:
		case !ok || name == "":
			p.refuse("env", CodeEnvLine, map[string]any{"line": strings.TrimSpace(line)})
		case hasKey(env, name):
			p.refuse("env", rayslice.CodeDuplicate, map[string]any{"value": name})
		default:
			env[name] = value
		}
	}
	return env
}

// CodeEnvLine is the field code of a line of the environment that is not NAME=value; only the form has it.
const CodeEnvLine = "env_line"

func hasKey(m map[string]string, k string) bool { _, ok := m[k]; return ok }

func (p *formParser) group(field string, g GroupForm) rayslice.Group {
	workers := p.number(field+".workers", g.Workers, 0)
	return rayslice.Group{
		Slice:   p.slice(field, g),
		Workers: workers, MinWorkers: p.number(field+".min_workers", g.MinWorkers, workers), MaxWorkers: p.number(field+".max_workers", g.MaxWorkers, workers),
		CPU:       p.number(field+".cpu", g.CPU, rayslice.DefaultWorkerCPU),
		MemoryGiB: p.number(field+".memory_gib", g.MemoryGiB, rayslice.DefaultWorkerMemoryGiB),
		Spread:    g.Spread,
	}
}

func (p *formParser) slice(field string, g GroupForm) rayslice.Slice {
	if g.Size == SizeCPU {
		return rayslice.Slice{}
	}
	pool, size, ok := strings.Cut(g.Size, ":")
	if !ok || pool == "" {
		p.refuse(field+".pool", rayslice.CodeRequired, nil)
		return rayslice.Slice{}
	}
	s := rayslice.Slice{Pool: pool, Cards: p.number(field+".per_pod", g.Cards, 1), CorePercent: p.number(field+".core_percent", g.CorePercent, 0)}
	if size != "whole" {
		s.GiB = p.number(field+".slice_gib", size, 0)
		if s.GiB == 0 { // 0 would read as a whole card
			s.GiB = -1
		}
	}
	return s
}
