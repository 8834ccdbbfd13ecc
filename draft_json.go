package rayslice

import (
	"encoding/json"
	"fmt"
	"io"
)

// draftBody is the JSON form of a draft. Numbers are pointers, so that a field left out gets its default and a 0 that
// was written is refused. A notebook with one worker group may write the group's fields at the top.
type draftBody struct {
	Team        string            `json:"team"`
	Name        string            `json:"name"`
	Purpose     string            `json:"purpose"`
	Hours       *int              `json:"hours"`
	Head        *headBody         `json:"head"`
	Groups      []json.RawMessage `json:"groups"`
	Image       string            `json:"image"`
	RayVersion  string            `json:"ray_version"`
	Env         map[string]string `json:"env"`
	PullSecrets []string          `json:"pull_secrets"`
	Unverified  bool              `json:"unverified"`

	groupSize
}

type headBody struct {
	CPU       *int `json:"cpu"`
	MemoryGiB *int `json:"memory_gib"`
}

type groupBody struct {
	Name string `json:"name"`
	groupSize
}

type groupSize struct {
	Pool        string `json:"pool"`
	GiB         int    `json:"slice_gib"`
	CorePercent *int   `json:"core_percent"`
	Cards       *int   `json:"per_pod"`
	Workers     int    `json:"workers"`
	MinWorkers  *int   `json:"min_workers"`
	MaxWorkers  *int   `json:"max_workers"`
	CPU         *int   `json:"cpu"`
	MemoryGiB   *int   `json:"memory_gib"`
	Spread      bool   `json:"spread"`
}

// DecodeDraft reads one JSON object strictly: an unknown field, a wrong type, a number that is not whole, or anything
// behind the object is an *Error of KindInvalid that names the field. Defaults are filled in; Normalize and Validate
// are left to the caller. Errors of r are returned as they are.
func DecodeDraft(r io.Reader) (RequestDraft, error) {
	var body draftBody
	if err := Decode(r, &body); err != nil {
		return RequestDraft{}, err
	}
	return body.draft()
}

// draft returns the draft with defaults filled in.
func (b draftBody) draft() (RequestDraft, error) {
	draft := RequestDraft{
		Team: b.Team, Name: b.Name, Purpose: b.Purpose, Image: b.Image, RayVersion: b.RayVersion,
		Env: b.Env, PullSecrets: b.PullSecrets, Unverified: b.Unverified, Hours: valueOr(b.Hours, DefaultHours),
		Head: Head{CPU: DefaultHeadCPU, MemoryGiB: DefaultHeadMemoryGiB},
	}
	if b.Head != nil {
		draft.Head = Head{CPU: valueOr(b.Head.CPU, DefaultHeadCPU), MemoryGiB: valueOr(b.Head.MemoryGiB, DefaultHeadMemoryGiB)}
	}
	var err error
	draft.Groups, err = decodeGroups(b)
	return draft, err
}

// decodeGroups reads groups, or makes the one group whose fields stand at the top.
func decodeGroups(body draftBody) ([]Group, error) {
	if body.Groups == nil {
		return []Group{body.group("")}, nil
	}
	if body.groupSize != (groupSize{}) {
		return nil, Invalid(FieldError{Field: "groups", Code: CodeGroupsTwice})
	}
	groups := make([]Group, 0, len(body.Groups))
	for i, raw := range body.Groups {
		var g groupBody
		if bad := decodeStrict(raw, fmt.Sprintf("groups[%d].", i), &g); bad != nil {
			return nil, Invalid(*bad)
		}
		groups = append(groups, g.group(g.Name))
	}
	return groups, nil
}

func (s groupSize) group(name string) Group {
	g := Group{
		Name: name, Workers: s.Workers, Spread: s.Spread,
		Slice: Slice{Pool: s.Pool, GiB: s.GiB, CorePercent: valueOr(s.CorePercent, 0)},
		CPU:   valueOr(s.CPU, DefaultWorkerCPU), MemoryGiB: valueOr(s.MemoryGiB, DefaultWorkerMemoryGiB),
		MinWorkers: valueOr(s.MinWorkers, s.Workers), MaxWorkers: valueOr(s.MaxWorkers, s.Workers),
	}
	if s.CorePercent != nil && *s.CorePercent == 0 {
		g.CorePercent = -1 // a 0 that was written is refused, not taken for "left out"
	}
	if g.Pool != "" || s.Cards != nil {
		g.Cards = valueOr(s.Cards, 1)
	}
	return g
}
