package web

import (
	"strings"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

func importSamples() []Sample {
	page := func(f Frame, text string, report *rayslice.LintReport) templ.Component {
		return ImportView(ImportPage{Frame: at(f, "/clusters/import"), Text: text, Report: report})
	}
	return []Sample{
		{"import", func(f Frame) templ.Component { return page(f, "", nil) }},
		{"import-empty", func(f Frame) templ.Component {
			return ImportView(ImportPage{Frame: at(f, "/clusters/import"), Empty: true})
		}},
		{"import-sound", func(f Frame) templ.Component {
			draft := SampleRow(f.Now, rayslice.StateReady).Request.Draft
			return page(f, sampleYAML, &rayslice.LintReport{Draft: &draft})
		}},
		{"import-findings", func(f Frame) templ.Component {
			draft := SampleRow(f.Now, rayslice.StateReady).Request.Draft
			return page(f, sampleYAML, &rayslice.LintReport{Findings: sampleFindings(), Draft: &draft, LeftOut: []string{
				"spec.headGroupSpec.template.spec.volumes", "spec.workerGroupSpecs[0].template.spec.containers[1]"}})
		}},
		{"import-unreadable", func(f Frame) templ.Component {
			return page(f, "kind: RayCluster\nspec:\n\trayVersion: 2.52.0\n", &rayslice.LintReport{Findings: []rayslice.Finding{
				{Line: 3, Column: 1, Code: rayslice.FindingTabs, Severity: rayslice.SeverityError}}})
		}},
		{"import-unusual", func(f Frame) templ.Component {
			return ImportView(ImportPage{Frame: at(f, "/clusters/import"), Text: sampleYAML, Unusual: true, Report: &rayslice.LintReport{Findings: sampleFindings()}})
		}},
		{"import-changed", func(f Frame) templ.Component {
			return ImportView(ImportPage{Frame: at(f, "/clusters/import"), Text: sampleYAML, Missed: true, Report: &rayslice.LintReport{
				Findings: everyFinding(), Draft: &rayslice.RequestDraft{Groups: make([]rayslice.Group, MaxFormGroups+1)}}})
		}},
	}
}

func sampleFindings() []rayslice.Finding {
	fix := []rayslice.Patch{{Op: "add", Path: "/spec/workerGroupSpecs/0/rayStartParams/num-gpus", Value: "1"}}
	return []rayslice.Finding{
		{Line: 6, Column: 1, Path: "spec.headGroupSpec", Code: rayslice.FindingHeadNumGPUs, Severity: rayslice.SeverityWarning, Fix: fix},
		{Line: 11, Column: 5, Path: "spec.workerGroupSpecs[0].rayStartParams", Code: rayslice.FindingNoNumGPUs, Severity: rayslice.SeverityError, Args: Args{"want": 1}, Fix: fix},
		{Line: 20, Column: 15, Path: "spec.workerGroupSpecs[0].template.spec.containers[0].resources.limits.aliyun.com/gpu-mem", Code: rayslice.FindingSliceSize,
			Severity: rayslice.SeverityError, Args: Args{"resource": "aliyun.com/gpu-mem", "value": strings.Repeat("8.5", 20)}},
	}
}

// everyFinding has one of each code.
func everyFinding() []rayslice.Finding {
	args := Args{"want": "text", "got": "int", "problem": "did not find expected key", "max": 50, "max_kib": 1024, "kinds": "Deployment", "field": "headGroupSpec",
		"name": "slices", "min": 4, "replicas": 2, "image": "rayproject/ray:2.9.0", "version": "2.52.0", "head": "rayproject/ray:2.52.0", "value": "0.5",
		"container": "logs", "first": "ray-worker", "resource": "aliyun.com/gpu-mem", "limit": "8", "request": "4", "gib": 8, "cards": 3, "path": "/dev"}
	var all []rayslice.Finding
	for i, code := range rayslice.FindingCodes() {
		all = append(all, rayslice.Finding{Line: i + 1, Column: 1, Path: "spec", Code: code, Severity: rayslice.SeverityWarning, Args: args})
	}
	return all
}
