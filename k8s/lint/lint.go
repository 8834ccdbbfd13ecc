// Package lint reads YAML that people already have for Ray clusters, says what is wrong with their slices, and turns it
// into a request. It changes nothing in Kubernetes and asks nothing of it.
package lint

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rayslice/rayslice"
)

// Bounds of a file. A file within them is read in less than 200 ms and 50 MB.
const (
	MaxSize      = 1 << 20 // bytes
	MaxDepth     = 64      // levels of maps and lists; a pod template needs twenty
	MaxValues    = 50_000  // values, aliases written out
	MaxDocuments = 100
	MaxFindings  = 200
)

// Check returns what is wrong with the text and, when it holds one Ray cluster, the request that it would become. Pools
// are looked for in the catalogue. It is pure, never fails, and never says anything but findings about bad input.
func Check(text []byte, catalogue rayslice.Catalogue) rayslice.LintReport {
	c := &checker{catalogue: catalogue}
	objects := c.objects(read(text, c))
	var clusters []cluster
	for _, o := range objects {
		if found, ok := c.cluster(o); ok {
			clusters = append(clusters, found)
			c.check(found)
		}
	}
	report := rayslice.LintReport{}
	if len(clusters) == 1 {
		report.Draft, report.LeftOut = draftOf(clusters[0], catalogue)
	}
	for _, extra := range clusters[min(1, len(clusters)):] {
		c.document = extra.document
		c.warn(rayslice.FindingManyClusters, extra.value, nil)
	}
	report.Findings = c.sorted()
	return report
}

// checker collects findings.
type checker struct {
	catalogue rayslice.Catalogue
	document  int // the one that is looked at
	findings  []rayslice.Finding
	full      bool // there were more than MaxFindings
}

func (c *checker) fail(code string, at *value, args map[string]any, fix ...rayslice.Patch) {
	c.add(rayslice.SeverityError, code, at, args, fix)
}

func (c *checker) warn(code string, at *value, args map[string]any, fix ...rayslice.Patch) {
	c.add(rayslice.SeverityWarning, code, at, args, fix)
}

// add notes a finding. What is reached through an alias has no fix: it would change the other places as well.
func (c *checker) add(severity rayslice.Severity, code string, at *value, args map[string]any, fix []rayslice.Patch) {
	if len(c.findings) >= MaxFindings {
		c.full = true
		return
	}
	if at.shared || !reachable(at.root().node, fix) {
		fix = nil
	}
	line, column := at.position()
	c.findings = append(c.findings, rayslice.Finding{
		Line: line, Column: column, Document: c.document, Path: at.path(), Code: code, Severity: severity, Args: args, Fix: fix,
	})
}

// addAt notes a finding about a place in a text that could not be read.
func (c *checker) addAt(code string, line int, args map[string]any) {
	c.findings = append(c.findings, rayslice.Finding{
		Line: max(line, 1), Column: 1, Document: c.document, Code: code, Severity: rayslice.SeverityError, Args: args,
	})
}

// sorted returns the findings by line, and says when there are more.
func (c *checker) sorted() []rayslice.Finding {
	slices.SortStableFunc(c.findings, func(a, b rayslice.Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if c.full {
		last := c.findings[len(c.findings)-1]
		c.findings = append(c.findings, rayslice.Finding{Line: last.Line, Column: last.Column, Document: last.Document, Code: rayslice.FindingMore,
			Severity: rayslice.SeverityWarning, Args: map[string]any{"max": MaxFindings}})
	}
	return c.findings
}

// object is one Kubernetes object of a file.
type object struct {
	*value
	document int
}

// objects returns the objects of all documents, those of lists one by one.
func (c *checker) objects(documents []*value) []object {
	var all []object
	for i, root := range documents {
		if root == nil || root.node.Kind == yaml.ScalarNode && root.null() {
			continue // nothing but comments
		}
		items := root.get("items")
		if kind := root.get("kind").str(); (kind == "List" || kind == "RayClusterList") && items != nil {
			for _, item := range items.items {
				all = append(all, object{item, i})
			}
			continue
		}
		all = append(all, object{root, i})
	}
	c.wantCluster(all)
	return all
}

// wantCluster says so when none of the objects is KubeRay's.
func (c *checker) wantCluster(all []object) {
	if len(c.findings) > 0 {
		return // it could not be read
	}
	var kinds []string
	for _, o := range all {
		kind := o.get("kind").str()
		if _, ok := clusterKinds[kind]; ok {
			return
		}
		if kind != "" {
			kinds = append(kinds, kind)
		}
	}
	args := map[string]any{"kinds": joined(kinds)}
	if len(kinds) == 0 && len(all) > 0 {
		args["got"] = kindName(all[0].node)
	}
	if len(all) == 0 {
		c.addAt(rayslice.FindingNoCluster, 1, args)
		return
	}
	c.document = all[0].document
	at := all[0].value
	if kind := at.get("kind"); kind != nil {
		at = kind
	}
	c.fail(rayslice.FindingNoCluster, at, args)
}
