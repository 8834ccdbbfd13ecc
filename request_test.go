package rayslice

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReasonSurvivesJSON(t *testing.T) {
	for _, want := range []Reason{
		{},
		{Code: ReasonHeadLost, Detail: "line\nend"},
		{Code: ReasonWorkersLost, Args: map[string]any{"have": 1, "want": -2, "share": 0.5, "far": 1e300, "who": "Ada", "ok": true}},
	} {
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Reason
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-written +read):\n%s", diff)
		}
	}
	if err := json.Unmarshal([]byte(`{"code":1}`), new(Reason)); err == nil {
		t.Error("a number was taken for a code")
	}
}
