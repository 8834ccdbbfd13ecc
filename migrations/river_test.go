package migrations_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/rayslice/rayslice/migrations"
)

// TestRiverSchemaIsRivers compares our copy with what the river in go.mod ships: after an upgrade its new versions need a
// migration of ours.
func TestRiverSchemaIsRivers(t *testing.T) {
	ours, err := migrations.Files.ReadFile("000012_river.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	spaces := regexp.MustCompile(`\s+`)
	flat := func(sql string) string {
		sql = strings.ReplaceAll(sql, "/* TEMPLATE: schema */", "")
		return spaces.ReplaceAllString(strings.Replace(sql, "'discarded',\n  'retryable'", "'discarded',\n  'pending',\n  'retryable'", 1), " ")
	}
	copied := flat(string(ours))
	versions := migrator.AllVersions()
	for _, v := range versions[1:] {
		if !strings.Contains(copied, strings.TrimSpace(flat(v.SQLUp))) {
			t.Errorf("version %d of river's schema, %q, is not in our migrations", v.Version, v.Name)
		}
	}
	if len(versions) != 8 {
		t.Errorf("river has %d versions of its schema, our migrations know 8", len(versions))
	}
}
