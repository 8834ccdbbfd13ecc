package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// readYAML decodes the file strictly into dst: a field that does not exist, stands twice or has the wrong type is an
// error that names it. An empty path means the embedded text. check sees what was decoded; every error begins with the
// file's name, or with name for the embedded text.
func readYAML(path, name string, embedded []byte, dst any, check func() error) error {
	text := embedded
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return err
		}
		name = path
	}
	err := decodeYAML(text, dst)
	if err == nil {
		err = check()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func decodeYAML(text []byte, dst any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "")) // one line, as people grep for
	}
	unknown, err := strictjson.UnmarshalStrict(asJSON, dst)
	if err != nil {
		return wrongType(err)
	}
	return errors.Join(unknown...)
}

// wrongType names the field as it stands in the file; encoding/json speaks of Go structs.
func wrongType(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	return fmt.Errorf("%s: must be %s, is %s", mismatch.Field, kindWords[mismatch.Type.Kind().String()], mismatch.Value)
}

// kindWords are the words for types that a YAML file knows.
var kindWords = map[string]string{
	"int": "a whole number", "float64": "a number", "string": "text", "bool": "true or false", "slice": "a list", "map": "a map", "struct": "a map",
}
