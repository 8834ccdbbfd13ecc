package web

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// A Sample is one state of one page, made up, for cmd/storybook and the tests. Adding a state means adding a sample.
type Sample struct {
	Name string // in the address, e.g. "request-ready"
	View func(Frame) templ.Component
}

// SampleFrame returns the frame samples are drawn in: a researcher of two teams, at the given time.
func SampleFrame(l *Localizer, path string, now time.Time) Frame {
	return Frame{Locale: l, User: sampleUser, Path: path, Now: now, Demo: true, Version: "0.1.0", RequestID: "4F7KQ2ZX", DataAge: 2 * time.Second}
}

var (
	sampleUser = rayslice.User{ID: 2, Name: "Lin Wei", Email: "lin@example.org", Roles: map[string]rayslice.Role{"vision": rayslice.RoleMember, "speech": rayslice.RoleLead}}
	sampleLead = rayslice.User{ID: 3, Name: "Maya Okafor", Roles: map[string]rayslice.Role{"vision": rayslice.RoleLead}}
)

// Samples returns every page in every state.
func Samples() []Sample {
	all := signInSamples()
	all = append(all, listSamples()...)
	all = append(all, formSamples()...)
	all = append(all, importSamples()...)
	all = append(all, requestSamples()...)
	all = append(all, verificationSamples()...)
	all = append(all, useSamples()...)
	all = append(all, approvalSamples()...)
	all = append(all, decisionSamples()...)
	all = append(all, teamSamples()...)
	all = append(all, accountSamples()...)
	all = append(all, peopleSamples()...)
	all = append(all, rulesSamples()...)
	all = append(all, auditSamples()...)
	all = append(all, adminSamples()...)
	all = append(all, notificationSamples()...)
	all = append(all, Sample{"api-docs", APIDocsView})
	all = append(all, fleetSamples()...)
	return append(all, errorSamples()...)
}

func signInSamples() []Sample {
	signIn := func(f Frame, personas ...rayslice.User) templ.Component {
		f.User = rayslice.User{}
		return SignInView(SignInPage{Frame: f, Personas: personas, Next: "/clusters"})
	}
	return []Sample{
		{"signin", func(f Frame) templ.Component {
			admin := rayslice.User{ID: 4, Name: "Sam Rivera", Admin: true}
			return signIn(f, sampleUser, sampleLead, rayslice.User{ID: 5, Name: "نور الهدى", Roles: map[string]rayslice.Role{"speech": rayslice.RoleMember}}, admin)
		}},
		{"signin-nobody", func(f Frame) templ.Component { return signIn(f) }},
		{"signin-provider", func(f Frame) templ.Component {
			f.Demo, f.User = false, rayslice.User{}
			return SignInView(SignInPage{Frame: f, Provider: "id.example.org", Next: "/clusters"})
		}},
		{"signin-not-configured", func(f Frame) templ.Component { f.Demo = false; return signIn(f) }},
	}
}

func listSamples() []Sample {
	list := func(f Frame, rows []ClusterRow) ClusterList {
		return ClusterList{Frame: f, Rows: rows, Teams: f.User.Teams(), Quotas: sampleQuotas()}
	}
	return []Sample{
		{"clusters-empty", func(f Frame) templ.Component { return ClusterListView(list(f, nil)) }},
		{"clusters-no-team", func(f Frame) templ.Component {
			f.User.Roles = nil
			return ClusterListView(ClusterList{Frame: f})
		}},
		{"clusters-nothing-matches", func(f Frame) templ.Component {
			p := list(f, nil)
			p.Filter = ListFilter{State: StateLive, Team: "vision", Search: "ablation", Mine: true}
			return ClusterListView(p)
		}},
		{"clusters-one", func(f Frame) templ.Component {
			return ClusterListView(list(f, []ClusterRow{SampleRow(f.Now, rayslice.StateReady)}))
		}},
		{"clusters-every-state", func(f Frame) templ.Component {
			var rows []ClusterRow
			for i, s := range rayslice.States() {
				rows = append(rows, SampleRow(f.Now, s))
				rows[i].Request.ID = fmt.Sprintf("sample%06d", i)
			}
			return ClusterListView(list(f, rows))
		}},
		{"clusters-many", func(f Frame) templ.Component {
			p := list(f, manyRows(f.Now))
			p.First, p.Next = "/clusters", "/clusters?cursor=abc"
			return ClusterListView(p)
		}},
		{"clusters-stale", func(f Frame) templ.Component {
			f.DataAge = 9*time.Minute + 12*time.Second
			return ClusterListView(list(f, []ClusterRow{SampleRow(f.Now, rayslice.StateProvisioning)}))
		}},
		{"clusters-unknown", func(f Frame) templ.Component {
			f.DataUnknown = true
			row := SampleRow(f.Now, rayslice.StateProvisioning)
			row.Cluster = rayslice.Cluster{}
			return ClusterListView(list(f, []ClusterRow{row}))
		}},
	}
}

// manyRows returns forty rows with names that pages tend to break on.
func manyRows(now time.Time) []ClusterRow {
	names := []string{
		"ablation", strings.Repeat("very-long-name-", 5), "تجربة الخسارة الجديدة", "🚀 sweep 🎯 <b>bold?</b>", "消融实验：新的损失函数与学习率预热",
		"שלום world (mixed)", strings.Repeat("W", 80), "a",
	}
	var rows []ClusterRow
	for i := range 40 {
		row := SampleRow(now, rayslice.States()[i%len(rayslice.States())])
		row.Request.ID = fmt.Sprintf("sample%06d", i)
		row.Request.Draft.Name = names[i%len(names)]
		rows = append(rows, row)
	}
	return rows
}

// at returns the frame of a page at another address.
func at(f Frame, path string) Frame {
	f.Path = path
	return f
}

func errorSamples() []Sample {
	sample := func(status int, problem *rayslice.Error) Sample {
		return Sample{fmt.Sprintf("error-%d", status), func(f Frame) templ.Component {
			return ErrorView(ErrorPage{Frame: at(f, "/nowhere"), Status: status, Problem: problem})
		}}
	}
	return []Sample{
		sample(403, &rayslice.Error{Kind: rayslice.KindForbidden, Code: "stop_not_allowed"}),
		sample(404, problemOf(rayslice.NotFound("request"))),
		sample(405, &rayslice.Error{Code: "method_not_allowed"}),
		sample(409, &rayslice.Error{Kind: rayslice.KindConflict, Code: "state_changed", Args: Args{"state": rayslice.StateStopped, "expected": rayslice.StateReady}}),
		{"error-413", func(f Frame) templ.Component {
			return ErrorView(ErrorPage{Frame: at(f, "/clusters/import"), Status: 413, Problem: &rayslice.Error{Code: "import_too_large", Args: Args{"max_kib": 1024}}, Back: "/clusters/import"})
		}},
		sample(422, &rayslice.Error{Kind: rayslice.KindInvalid, Code: "invalid_fields", Fields: []rayslice.FieldError{
			{Field: "hours", Code: rayslice.CodeRange, Args: Args{"min": 1, "max": 168}}, {Field: "state", Code: rayslice.CodeCharacters}}}),
		sample(500, nil),
		sample(503, &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "database_unavailable"}),
	}
}

func sampleQuotas() []rayslice.Quota {
	return []rayslice.Quota{
		{Team: "speech", Limit: rayslice.Charge{GiB: 64}, Used: rayslice.Charge{GiB: 12}},
		{Team: "vision", Limit: rayslice.Charge{GiB: 96, Cards: 2}, Used: rayslice.Charge{GiB: 56, Cards: 1}, Held: rayslice.Charge{GiB: 8}},
	}
}

// SampleCatalogue returns pools of every mode, and two images.
func SampleCatalogue() rayslice.Catalogue {
	return rayslice.Catalogue{
		Pools: []rayslice.Pool{
			{Name: "a10", Model: "NVIDIA A10", Mode: rayslice.ModeCGPU, CardGiB: 22, Sizes: []int{4, 8, 16}, MaxCards: 1},
			{Name: "t4", Model: "Tesla T4", Mode: rayslice.ModeCGPU, CardGiB: 15, Sizes: []int{4, 8}, MaxCards: 1},
			{Name: "a10c", Model: "NVIDIA A10", Mode: rayslice.ModeCoreMem, CardGiB: 22, Sizes: []int{8, 16}, MaxCards: 1},
			{Name: "a10s", Model: "NVIDIA A10", Mode: rayslice.ModeShare, CardGiB: 22, Sizes: []int{8}, MaxCards: 1},
			{Name: "a100", Model: "NVIDIA A100", Mode: rayslice.ModeWhole, CardGiB: 80, MaxCards: 8},
		},
		Images: []rayslice.Image{
			{Name: "ray 2.52 · py311 · cu124", Ref: "registry.example.org/ray:2.52.0-py311-cu124", RayVersion: "2.52.0", Python: "3.11"},
			{Name: "ray 2.49 · py310 · cu121", Ref: "registry.example.org/ray:2.49.2-py310-cu121", RayVersion: "2.49.2", Python: "3.10"},
		},
		ImagePrefixes: []string{"registry.example.org/vision/"},
		Limits:        rayslice.DefaultLimits(),
	}
}

func sampleFleet() rayslice.Fleet {
	return rayslice.Fleet{Pools: []rayslice.PoolStatus{
		{Pool: "a10", Nodes: 3, Looked: 3, Cards: 6, LargestGiB: 22},
		{Pool: "t4", Nodes: 1, Looked: 1, Cards: 2, LargestGiB: 15, Blocked: rayslice.Reason{Code: "pool_unit", Args: Args{"node": "cn-hangzhou.10.0.3.7", "offered": 15360}}},
		{Pool: "a10c", Nodes: 1, Looked: 1, Cards: 2, LargestGiB: 22},
		{Pool: "a10s", Nodes: 1, Looked: 1, Cards: 2, LargestGiB: 22},
		{Pool: "a100", Nodes: 1, Looked: 1, Cards: 8, LargestGiB: 80},
	}}
}

func sampleForm() RequestForm {
	f := NewRequestForm(SampleCatalogue(), "vision")
	f.Name, f.Purpose = "ablation-7", "Ablation of the new loss for the March paper"
	f.Groups[0].Size, f.Groups[0].Workers = "a10:8", "2"
	return f
}

func samplePage(f Frame, form RequestForm) NewRequestPage {
	f.Path = "/clusters/new"
	p := NewRequestPage{Frame: f, Form: form, Catalogue: SampleCatalogue(), Fleet: sampleFleet(), Quotas: sampleQuotas(), IdempotencyKey: "sample",
		Decision: rayslice.Reason{Code: rayslice.ReasonAutoApproved}}
	if draft, err := form.Draft(); err == nil {
		draft.Normalize(p.Catalogue)
		p.Charge = draft.Charge()
	}
	p.Fits = sampleFits(f.Now)
	if fit, ok := p.Fits[groupAt(form, 0).Size]; ok {
		p.Room = &fit
	}
	return p
}

// SamplePreview returns what the portal would answer to POST /clusters/preview with the form; the YAML is always the same.
func SamplePreview(f Frame, form RequestForm) NewRequestPage {
	p := samplePage(f, form)
	draft, err := form.Draft()
	if err == nil {
		draft.Normalize(p.Catalogue)
		err = draft.Validate(p.Catalogue)
	}
	if err == nil {
		p.YAML = sampleYAML
	}
	p.Problem = problemOf(err)
	return p
}

func problemOf(err error) *rayslice.Error {
	var problem *rayslice.Error
	errors.As(err, &problem)
	return problem
}

func formSamples() []Sample {
	return []Sample{
		{"new", func(f Frame) templ.Component {
			p := samplePage(f, sampleForm())
			p.YAML = sampleYAML
			return NewRequestView(p)
		}},
		{"new-fresh", func(f Frame) templ.Component {
			f.User.Roles = map[string]rayslice.Role{"speech": rayslice.RoleMember}
			p := samplePage(f, NewRequestForm(SampleCatalogue(), "speech"))
			p.Quotas = p.Quotas[:1]
			return NewRequestView(p)
		}},
		{"new-env-lost", func(f Frame) templ.Component {
			p := samplePage(f, fullForm())
			p.Form.Env, p.EnvLost = "", true
			return NewRequestView(p)
		}},
		{"new-no-team", func(f Frame) templ.Component {
			p := samplePage(f, sampleForm())
			p.Quotas = nil
			return NewRequestView(p)
		}},
		{"new-everything", func(f Frame) templ.Component { return NewRequestView(samplePage(f, fullForm())) }},
		{"new-rejected", func(f Frame) templ.Component { return NewRequestView(rejectedPage(f)) }},
		{"new-over-quota", func(f Frame) templ.Component {
			form := sampleForm()
			form.Groups[0].Workers = "6"
			p := samplePage(f, form)
			p.Problem = problemOf(p.Quotas[1].OverQuota(p.Charge))
			p.YAML = sampleYAML
			return NewRequestView(p)
		}},
		{"new-stale", func(f Frame) templ.Component {
			f.DataUnknown = true
			p := samplePage(f, sampleForm())
			p.Fleet, p.Fits, p.Room = rayslice.Fleet{}, nil, nil
			return NewRequestView(p)
		}},
	}
}

// fullForm has something in every field.
func fullForm() RequestForm {
	f := sampleForm()
	f.Image, f.CustomImage, f.RayVersion = ImageCustom, "registry.example.org/vision/train:1.4", "2.52.0"
	f.Env, f.PullSecrets = "WANDB_MODE=offline\nHF_HOME=/data/hf", "registry-key"
	f.Groups[0] = GroupForm{Size: "a10c:8", CorePercent: "50", Workers: "2", MinWorkers: "1", MaxWorkers: "4", CPU: "8", MemoryGiB: "32", Spread: true}
	f.Groups = append(f.Groups,
		GroupForm{Size: "a100:whole", Cards: "2", Workers: "1", CPU: "32", MemoryGiB: "256"},
		GroupForm{Size: SizeCPU, Workers: "4", CPU: "16", MemoryGiB: "64"})
	return f
}

// rejectedPage has something wrong in every field that can be wrong.
func rejectedPage(f Frame) NewRequestPage {
	form := fullForm()
	form.Name, form.Hours, form.RayVersion = "", "forever", "latest"
	form.Env += "\nLD_PRELOAD=/x.so\nno equals sign"
	form.Groups[0].MinWorkers, form.Groups[1].Workers = "3", "0"
	p := samplePage(f, form)
	bad := func(field, code string, args Args) rayslice.FieldError {
		return rayslice.FieldError{Field: field, Code: code, Args: args}
	}
	p.Problem = &rayslice.Error{Kind: rayslice.KindInvalid, Code: "invalid_fields", Fields: []rayslice.FieldError{
		bad("name", rayslice.CodeRequired, nil),
		bad("hours", rayslice.CodeType, Args{"want": "int", "got": "text"}),
		bad("image", rayslice.CodeImageNotAllowed, Args{"prefixes": "registry.example.org/vision/"}),
		bad("ray_version", rayslice.CodeRayVersionFormat, nil),
		bad("head.memory_gib", rayslice.CodeHeadMemoryFloor, Args{"min": 4}),
		bad("env.LD_PRELOAD", rayslice.CodeReservedName, Args{"name": "LD_PRELOAD"}),
		bad("env", CodeEnvLine, Args{"line": "no equals sign"}),
		bad("pull_secrets[0]", rayslice.CodeCharacters, nil),
		bad("groups[0].slice_gib", rayslice.CodeTooLargeForCard, Args{"largest": 22, "model": "NVIDIA A10"}),
		bad("groups[0].core_percent", rayslice.CodeCoreStep, nil),
		bad("groups[0].min_workers", rayslice.CodeMinMax, nil),
		bad("groups[1].workers", rayslice.CodeRange, Args{"min": 1, "max": 400}),
		bad("groups", rayslice.CodeTooManyWorkers, Args{"max": 400, "asked": 500}),
	}}
	return p
}

const sampleYAML = `apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: rs-k5d2m7qxw3ab
  namespace: team-vision
spec:
  rayVersion: 2.52.0
  workerGroupSpecs:
  - groupName: a10-8g
    replicas: 2
    rayStartParams:
      num-gpus: "1" # KubeRay cannot see a slice; without this Ray starts with no GPU
    template:
      spec:
        nodeSelector:
          ack.node.gpu.schedule: cgpu # nodes that enforce the memory of a slice
        containers:
        - name: ray-worker
          resources:
            limits:
              aliyun.com/gpu-mem: "8" # 8 GiB of one card
`
