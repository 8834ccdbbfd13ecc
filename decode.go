package rayslice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Decode reads one JSON object strictly into dst, a pointer to a struct: an unknown field, one that stands twice or in other
// letters, a wrong type, a number that is not whole, anything behind the object, and a required field that is missing or null
// are an *Error of KindInvalid that names the field. A field within another is required as "auto.gib". Errors of r are returned as they are.
func Decode(r io.Reader, dst any, required ...string) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if !utf8.Valid(raw) {
		return Invalid(FieldError{Field: "body", Code: CodeNotJSON}) // encoding/json would mend it silently
	}
	if bad := decodeStrict(raw, "", dst); bad != nil {
		return Invalid(*bad)
	}
	var missing []FieldError
	for _, field := range required {
		if !has(raw, strings.Split(field, ".")) {
			missing = append(missing, FieldError{Field: field, Code: CodeRequired})
		}
	}
	return Invalid(missing...)
}

// has reports whether the object has a value at the path.
func has(raw []byte, path []string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	value, found := fields[path[0]]
	switch {
	case !found || string(value) == "null":
		return false
	case len(path) == 1:
		return true
	}
	return has(value, path[1:])
}

func valueOr(p *int, otherwise int) int {
	if p == nil {
		return otherwise
	}
	return *p
}

// decodeStrict decodes one JSON value into dst and names the field that is wrong.
func decodeStrict(raw []byte, prefix string, dst any) *FieldError {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(dst)
	if err == nil && bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		err = errors.New("null")
	}
	if err == nil {
		if _, rest := d.Token(); rest != io.EOF {
			err = errors.New("data behind the object")
		}
	}
	if err == nil {
		return checkNames(json.NewDecoder(bytes.NewReader(raw)), prefix, reflect.TypeOf(dst))
	}
	bad := fieldOf(err, prefix)
	return &bad
}

// checkNames reads one value, which decodes into the type, and names a field that stands twice, or not by the very name that
// the type has: encoding/json takes "Workers", and the last of two.
func checkNames(d *json.Decoder, path string, t reflect.Type) *FieldError {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	token, _ := d.Token() // it was read before
	if token == json.Delim('[') {
		for i := 0; d.More(); i++ {
			if bad := checkNames(d, fmt.Sprintf("%s[%d].", strings.TrimSuffix(path, "."), i), memberType(t, "")); bad != nil {
				return bad
			}
		}
		_, _ = d.Token()
	}
	if token != json.Delim('{') {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		token, _ := d.Token()
		name, _ := token.(string)
		if seen[name] {
			return &FieldError{Field: path + name, Code: CodeDuplicate, Args: map[string]any{"value": name}}
		}
		seen[name] = true
		member := memberType(t, name)
		if member == nil && t != nil && t.Kind() == reflect.Struct {
			return &FieldError{Field: path + name, Code: CodeUnknownField}
		}
		if bad := checkNames(d, path+name+".", member); bad != nil {
			return bad
		}
	}
	_, _ = d.Token()
	return nil
}

// memberType returns the type of a member of a struct, map or list; nil when it has no such, or may be anything.
func memberType(t reflect.Type, name string) reflect.Type {
	if t == nil || t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	switch t.Kind() {
	case reflect.Map, reflect.Slice:
		return t.Elem()
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && tag != "" {
				return f.Type
			}
		}
	}
	return nil
}

// embedded drops the embedded structs, which have no name in JSON, from the path of a field.
var embedded = strings.NewReplacer("draftBody.", "", "groupSize.", "", "Charge.", "")

// fieldOf turns an error of encoding/json into the field it is about.
func fieldOf(err error, prefix string) FieldError {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		field := prefix + embedded.Replace(wrongType.Field)
		if wrongType.Field == "" {
			field = strings.TrimSuffix(prefix, ".")
		}
		want := wrongType.Type.Kind().String()
		if wrongType.Type.Kind() == reflect.Int64 {
			want = "int"
		}
		return FieldError{Field: orBody(field), Code: CodeType, Args: map[string]any{"want": want, "got": wrongType.Value}}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name != `""` { // which has nothing to be called by but its quotes
			name = strings.Trim(name, `"`)
		}
		return FieldError{Field: prefix + name, Code: CodeUnknownField}
	}
	return FieldError{Field: orBody(strings.TrimSuffix(prefix, ".")), Code: CodeNotJSON}
}

func orBody(field string) string {
	if field == "" {
		return "body"
	}
	return field
}
