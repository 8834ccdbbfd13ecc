package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/web"
)

// render prints the RayCluster of a request file. The object's name comes from team and display name, so that applying
// the output twice is applying it once.
func render(out io.Writer, config Config, command renderCommand) error {
	catalogue, err := loadCatalogue(config.Catalogue)
	if err != nil {
		return err
	}
	draft, err := readDraft(command.File, catalogue)
	if err != nil {
		return readable(err)
	}
	request := rayslice.Request{
		ID: stableID(draft.Team, draft.Name), Team: draft.Team, Namespace: command.KubeNamespace, Draft: draft, Charge: draft.Charge(),
	}
	text, err := k8s.RenderYAML(request, catalogue)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// readDraft reads YAML or JSON as strictly as the API reads its body.
func readDraft(file string, catalogue rayslice.Catalogue) (rayslice.RequestDraft, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return rayslice.RequestDraft{}, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return rayslice.RequestDraft{}, fmt.Errorf("%s: %w", file, err)
	}
	draft, err := rayslice.DecodeDraft(bytes.NewReader(asJSON))
	if err != nil {
		return rayslice.RequestDraft{}, err
	}
	draft.Normalize(catalogue)
	return draft, draft.Validate(catalogue)
}

// readable turns field errors into one English line each, as the API says them.
func readable(err error) error {
	var e *rayslice.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		return err
	}
	locale := web.NewLocalizer("en")
	lines := []string{"the request is refused"}
	for _, f := range e.Fields {
		lines = append(lines, "  "+f.Field+": "+locale.Field(f))
	}
	return errors.New(strings.Join(lines, "\n"))
}

func stableID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:12])
}
