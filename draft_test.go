package rayslice

import (
	"errors"
	"strings"
	"testing"
)

// testCatalogue is the demo fleet's catalogue, cut down.
func testCatalogue() Catalogue {
	return Catalogue{
		Pools: []Pool{
			{Name: "a10", Model: "NVIDIA A10", Mode: ModeCGPU, CardGiB: 22, CardMiB: 23028, Sizes: []int{4, 8, 16, 22}, MaxCards: 1},
			{Name: "a10-core", Model: "NVIDIA A10", Mode: ModeCoreMem, CardGiB: 22, Sizes: []int{4, 8, 16}, MaxCards: 1},
			{Name: "a10-share", Model: "NVIDIA A10", Mode: ModeShare, CardGiB: 22, Sizes: []int{8}, MaxCards: 1},
			{Name: "a100", Model: "NVIDIA A100", Mode: ModeWhole, CardGiB: 80, MaxCards: 8},
			{Name: "multi", Model: "NVIDIA A10", Mode: ModeCGPU, CardGiB: 22, Sizes: []int{8}, MaxCards: 4},
		},
		Images:        []Image{{Name: "ray 2.52", Ref: "rayproject/ray:2.52.0-py311", RayVersion: "2.52.0", Python: "3.11"}},
		ImagePrefixes: []string{"registry.example/ray/"},
		Limits:        DefaultLimits(),
	}
}

// TestDraftRefusals sends bodies as the API gets them and expects the field and the code that name the fault.
func TestDraftRefusals(t *testing.T) {
	tests := map[string]struct {
		body      string
		wantField string // "" = accepted
		wantCode  string
	}{
		"B019 10G":                        {`"slice_gib":"10G"`, "slice_gib", CodeType},
		"B019 8.5":                        {`"slice_gib":8.5`, "slice_gib", CodeType},
		"B019 0":                          {`"slice_gib":0`, "groups[0].slice_gib", CodeSizeNotOffered},
		"B019 -1":                         {`"slice_gib":-1`, "groups[0].slice_gib", CodeSizeNotOffered},
		"B019 1e3":                        {`"slice_gib":1e3`, "slice_gib", CodeType},
		"B019 a blank before the digit":   {`"slice_gib":" 8"`, "slice_gib", CodeType},
		"B026 more than a card":           {`"slice_gib":24`, "groups[0].slice_gib", CodeTooLargeForCard},
		"T25 overflow":                    {`"slice_gib":9223372036854775808`, "slice_gib", CodeType},
		"T25 workers 0":                   {`"slice_gib":8,"workers":0`, "groups[0].workers", CodeRange},
		"B097 801 workers":                {`"slice_gib":8,"workers":801`, "groups[0].workers", CodeRange},
		"T25 size × workers":              {`"slice_gib":8,"workers":9223372036854775807`, "groups[0].workers", CodeRange},
		"B011 chooses a card":             {`"slice_gib":8,"env":{"CUDA_VISIBLE_DEVICES":"3"}`, "env.CUDA_VISIBLE_DEVICES", CodeReservedName},
		"B011 lower case":                 {`"slice_gib":8,"env":{"nvidia_visible_devices":"all"}`, "env.nvidia_visible_devices", CodeReservedName},
		"B037 33 percent":                 {`"pool":"a10-core","slice_gib":8,"core_percent":33`, "groups[0].core_percent", CodeCoreStep},
		"B037 0 percent":                  {`"pool":"a10-core","slice_gib":8,"core_percent":0`, "groups[0].core_percent", CodeCoreStep},
		"B037 105 percent":                {`"pool":"a10-core","slice_gib":8,"core_percent":105`, "groups[0].core_percent", CodeCoreStep},
		"B037 memory only on core_mem":    {`"pool":"a10-core","slice_gib":8`, "groups[0].core_percent", CodeCoreRequired},
		"B052 percent on cgpu":            {`"slice_gib":8,"core_percent":10`, "groups[0].core_percent", CodeCoreNotHere},
		"B038 share is closed":            {`"pool":"a10-share","slice_gib":8`, "groups[0].pool", CodePoolClosed},
		"B041 two half cards":             {`"slice_gib":8,"per_pod":2`, "groups[0].per_pod", CodeCardsRange},
		"B094 small head":                 {`"slice_gib":8,"head":{"memory_gib":1}`, "head.memory_gib", CodeHeadMemoryFloor},
		"unknown field":                   {`"slice_gib":8,"status":"approved"`, "status", CodeUnknownField},
		"a field twice":                   {`"slice_gib":8,"slice_gib":16`, "slice_gib", CodeDuplicate},
		"a field in other letters":        {`"slice_gib":8,"Workers":3`, "Workers", CodeUnknownField},
		"a field in letters that fold":    {`"slice_gib":8,"wor\u212aers":3`, "wor\u212aers", CodeUnknownField},
		"a field of a group twice":        {`"groups":[{"pool":"a10","slice_gib":8,"workers":1,"workers":2}]`, "groups[0].workers", CodeDuplicate},
		"a field of the head in capitals": {`"slice_gib":8,"head":{"CPU":1}`, "head.CPU", CodeUnknownField},
		"a variable twice":                {`"slice_gib":8,"env":{"A":"1","A":"2"}`, "env.A", CodeDuplicate},
		"hours 0":                         {`"slice_gib":8,"hours":0`, "hours", CodeRange},
		"whole card with a size":          {`"pool":"a100","slice_gib":8`, "groups[0].slice_gib", CodeWholeNoGiB},
		"unknown pool":                    {`"pool":"h100","slice_gib":8`, "groups[0].pool", CodePoolUnknown},
		"slice without pool":              {`"pool":"","slice_gib":8`, "groups[0].pool", CodeRequired},
		"image of nowhere":                {`"slice_gib":8,"image":"evil/ray:1"`, "image", CodeImageNotAllowed},
		"image with a shell in it":        {`"slice_gib":8,"image":"ray;reboot"`, "image", CodeCharacters},
		"T26 control character in a name": {`"slice_gib":8,"name":"a\u0000b"`, "name", CodeCharacters},
		"groups and a group at the top":   {`"slice_gib":8,"groups":[{"pool":"a10","slice_gib":8,"workers":1}]`, "groups", CodeGroupsTwice},
		"a name that nobody can see":      {`"slice_gib":8,"name":"\u200b\u2060 "`, "name", CodeRequired},
		"8 GiB":                           {`"slice_gib":8`, "", ""},
		"whole card":                      {`"pool":"a100"`, "", ""},
		"CPU only":                        {`"pool":""`, "", ""},
		"T26 RTL, emoji, markup":          {`"slice_gib":8,"name":"\u202Eשלום 🚀 <script>"`, "", ""},
		"Ray's own settings":              {`"slice_gib":8,"env":{"RAY_DATA_VERBOSE_PROGRESS":"1"}`, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := readDraft(mergeBody(tc.body))
			var e *Error
			if errors.As(err, &e) != (tc.wantField != "") {
				t.Fatalf("got %v, want field %q", err, tc.wantField)
			}
			if tc.wantField == "" {
				return
			}
			if e.Kind != KindInvalid || len(e.Fields) != 1 || e.Fields[0].Field != tc.wantField || e.Fields[0].Code != tc.wantCode {
				t.Errorf("got %v, want only %s %s", err, tc.wantField, tc.wantCode)
			}
		})
	}
}

// mergeBody completes the fields a case does not mention.
func mergeBody(body string) string {
	for _, rest := range []string{`"team":"vision"`, `"name":"ablation-7"`, `"pool":"a10"`, `"workers":2`} {
		key, _, _ := strings.Cut(rest, ":")
		if !strings.Contains(body, key+":") && !(strings.Contains(body, `"groups"`) && (key == `"pool"` || key == `"workers"`)) {
			body += "," + rest
		}
	}
	return "{" + body + "}"
}

func readDraft(body string) error {
	draft, err := DecodeDraft(strings.NewReader(body))
	if err != nil {
		return err
	}
	draft.Normalize(testCatalogue())
	return draft.Validate(testCatalogue())
}

func TestDecodeDraftRefusesWhatIsNotOneObject(t *testing.T) {
	for _, body := range []string{``, `null`, `[]`, `"x"`, `{}{}`, `{"team":"a"} x`, `{"groups":[null]}`, `{"groups":[1]}`, `{"team":`, "{\"name\":\"\xff\xfe\"}"} {
		if _, err := DecodeDraft(strings.NewReader(body)); KindOf(err) != KindInvalid {
			t.Errorf("%q: got %v, want invalid", body, err)
		}
	}
}

func FuzzDecodeDraft(f *testing.F) {
	f.Add(mergeBody(`"slice_gib":8`))
	f.Add(`{"groups":[{"pool":"a10","slice_gib":8,"workers":1,"min_workers":0,"max_workers":4}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		draft, err := DecodeDraft(strings.NewReader(body))
		if err != nil {
			return
		}
		draft.Normalize(testCatalogue())
		if draft.Validate(testCatalogue()) != nil {
			return
		}
		if c := draft.Charge(); c.GiB < 0 || c.Cards < 0 || c.GiB > 400*22*4 {
			t.Errorf("charge %v of a valid draft", c)
		}
	})
}
