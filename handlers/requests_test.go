package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestAskingForACluster walks the main story in a browser without JavaScript.
func TestAskingForACluster(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)

	list := ada.get("/clusters").want(http.StatusOK).page()
	if n := list.Find(".empty a[href='/clusters/new']").Length(); n != 1 {
		t.Errorf("%d invitations on an empty list, want 1", n)
	}

	form := ada.get("/clusters/new").want(http.StatusOK).page()
	key, _ := form.Find("#request-form input[name=idempotency_key]").Attr("value")
	if len(key) < 20 {
		t.Errorf("idempotency key %q, want a long random one", key)
	}

	values := goodForm()
	values.Set("idempotency_key", key)
	preview := ada.post("/clusters/preview", values).want(http.StatusOK).page()
	if got := preview.Find("pre.yaml").Text(); !strings.Contains(got, "namespace: team-vision") || !strings.Contains(got, "rs-"+previewID) {
		t.Errorf("preview shows %q", got)
	}
	if n := p.countRequests(); n != 0 {
		t.Fatalf("the preview wrote %d requests", n)
	}

	target := ada.post("/clusters", values).want(http.StatusSeeOther).location()
	shown := ada.get(target).want(http.StatusOK).page()
	if got := shown.Find("h1").Text(); !strings.Contains(got, "ablation-7") {
		t.Errorf("heading %q", got)
	}
	if got, _ := shown.Find("[sse-connect]").Attr("sse-connect"); got != target+"/events" {
		t.Errorf("stream %q, want %q", got, target+"/events")
	}
	if n := shown.Find(".log li").Length(); n < 2 {
		t.Errorf("%d audit entries, want creation and approval", n)
	}
	if got := ada.get(target + "/yaml").want(http.StatusOK).Body.String(); !strings.Contains(got, "owner: Ada") {
		t.Errorf("YAML %q", got)
	}
	if n := ada.get("/teams/vision").want(http.StatusOK).page().Find("table.clusters tbody tr").Length(); n != 1 {
		t.Errorf("%d clusters on the team's page, want 1", n)
	}

	confirm := ada.get(target + "?confirm=stop").want(http.StatusOK).page()
	if got, _ := confirm.Find("section.confirm form").Attr("action"); got != target+"/stop" {
		t.Errorf("stop form posts to %q", got)
	}
	if got := ada.post(target+"/stop", nil).want(http.StatusSeeOther).location(); got != target {
		t.Errorf("stopping leads to %q", got)
	}
	request, err := p.store.Request(t.Context(), p.Ada, strings.TrimPrefix(target, "/clusters/"))
	if err != nil || request.State != rayslice.StateStopping {
		t.Errorf("state %s (%v), want stopping", request.State, err)
	}
}

// TestFormRefusals sends forms with one bad field each and expects the form back, with the field marked and nothing
// written.
func TestFormRefusals(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	tests := map[string]struct {
		field, value string
		wantInvalid  string // name of the input that is marked; "" = the summary names the field
	}{
		"B011 chooses a card":          {"env", "CUDA_VISIBLE_DEVICES=3", "env"},
		"B011 lower case":              {"env", "nvidia_visible_devices=all", "env"},
		"B019 10G":                     {"groups[0].size", "a10:10G", ""},
		"B019 8.5":                     {"groups[0].size", "a10:8.5", ""},
		"B019 0":                       {"groups[0].size", "a10:0", ""},
		"B019 -1":                      {"groups[0].size", "a10:-1", ""},
		"B019 1e3":                     {"groups[0].size", "a10:1e3", ""},
		"B026 more than a card":        {"groups[0].size", "a10:24", ""},
		"B037 33 percent":              {"groups[0].core_percent", "33", "groups[0].core_percent"},
		"B037 105 percent":             {"groups[0].core_percent", "105", "groups[0].core_percent"},
		"B037 memory only on core_mem": {"groups[0].size", "a10-core:8", "groups[0].core_percent"},
		"B038 share is closed":         {"groups[0].size", "a10-share:8", ""},
		"B041 two half cards":          {"groups[0].per_pod", "2", "groups[0].per_pod"},
		"B052 percent on cgpu":         {"groups[0].core_percent", "10", "groups[0].core_percent"},
		"B094 small head":              {"head.memory_gib", "1", "head.memory_gib"},
		"B094 head in Gi":              {"head.memory_gib", "1Gi", "head.memory_gib"},
		"B097 801 workers":             {"groups[0].workers", "801", "groups[0].workers"},
		"B104 unknown team":            {"team", "no-such", ""},
		"T30 somebody else's team":     {"team", "speech", ""},
		"T25 workers 0":                {"groups[0].workers", "0", "groups[0].workers"},
		"T25 workers in other digits":  {"groups[0].workers", "٨", "groups[0].workers"},
		"T25 workers overflow":         {"groups[0].workers", "9223372036854775808", "groups[0].workers"},
		"T25 size × workers overflow":  {"groups[0].workers", "9223372036854775807", "groups[0].workers"},
		"T25 NUL in a number":          {"groups[0].workers", "8\x00", "groups[0].workers"},
		"T26 NUL in the name":          {"name", "a\x00b", "name"},
		"T26 line break in the name":   {"name", "a\r\nb", "name"},
		"name missing":                 {"name", "", "name"},
		"hours too many":               {"hours", "1000", "hours"},
		"hours in words":               {"hours", "eight", "hours"},
		"image of nowhere":             {"image", "evil/ray:1", "image"},
		"purpose too long":             {"purpose", strings.Repeat("x", rayslice.MaxPurposeLength+1), "purpose"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			values := goodForm()
			if strings.HasPrefix(tc.field, "groups[0].core_percent") && strings.HasPrefix(name, "B037") {
				values.Set("groups[0].size", "a10-core:8")
			}
			values.Set(tc.field, tc.value)
			page := ada.post("/clusters", values).want(http.StatusUnprocessableEntity).page()
			if page.Find("#problem li").Length() == 0 {
				t.Errorf("the summary names no field")
			}
			if tc.wantInvalid != "" {
				if n := page.Find("[name='" + tc.wantInvalid + "'][aria-invalid=true]").Length(); n != 1 {
					t.Errorf("%s is not marked", tc.wantInvalid)
				}
			}
			if tc.field != "name" {
				if got, _ := page.Find("input[name=name]").Attr("value"); got != "ablation-7" {
					t.Errorf("the form came back with name %q", got)
				}
			}
		})
	}
	if n := p.countRequests(); n != 0 {
		t.Errorf("%d requests were written", n)
	}
}

// TestNamesOfAnyScript is T26: what people call things is stored and shown as text, and the object's name is legal.
func TestNamesOfAnyScript(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	for _, name := range []string{strings.Repeat("a", 80), "7days", "UPPER", "a.b.c", "🚀 run", "-a", "\u202eשלום", "<script>alert(1)</script>", `"><img src=x>`} {
		values := goodForm()
		values.Set("name", name)
		values.Set("idempotency_key", "")
		values.Set("groups[0].size", "cpu")
		target := ada.post("/clusters", values).want(http.StatusSeeOther).location()
		page := ada.get(target).want(http.StatusOK).page()
		if got := page.Find("h1 bdi").Text(); got != name {
			t.Errorf("shown as %q, want %q", got, name)
		}
		if page.Find("main script, main img").Length() != 0 {
			t.Errorf("%q became markup", name)
		}
	}
}

// TestFormOverQuota expects the form back with the numbers.
func TestFormOverQuota(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.create(p.Bob, storetest.Draft(2, 8))
	values := goodForm()
	page := p.as(p.Ada).post("/clusters", values).want(http.StatusConflict).page()
	summary := page.Find("#problem").Text()
	for _, number := range []string{"16", "24", "8"} {
		if !strings.Contains(summary, number) {
			t.Errorf("summary %q lacks %s", summary, number)
		}
	}
	if got, _ := page.Find("input[name=name]").Attr("value"); got != "ablation-7" {
		t.Errorf("the form came back with name %q", got)
	}
	if n := p.countRequests(); n != 1 {
		t.Errorf("%d requests, want only Bob's", n)
	}
}

// TestDoubleClick is B106: the same form sent twice asks once, and both clicks end on the same page.
func TestDoubleClick(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	first := ada.post("/clusters", goodForm()).want(http.StatusSeeOther).location()
	second := ada.post("/clusters", goodForm()).want(http.StatusSeeOther).location()
	if first != second || p.countRequests() != 1 {
		t.Errorf("%s and %s, %d requests", first, second, p.countRequests())
	}
	ada.get(second).want(http.StatusOK)

	changed := goodForm()
	changed.Set("name", "other")
	page := ada.post("/clusters", changed).want(http.StatusUnprocessableEntity).page()
	if key, _ := page.Find("input[name=idempotency_key]").Attr("value"); key == "" || key == changed.Get("idempotency_key") {
		t.Errorf("key %q came back, want a new one, so that sending again is another request", key)
	}
}

// TestHiddenFields is T31: what the form does not offer has no effect.
func TestHiddenFields(t *testing.T) {
	t.Parallel()
	p := open(t)
	values := goodForm()
	for name, value := range map[string]string{"state": "ready", "status": "approved", "owner": "1", "team_id": "speech", "id": "aaaaaaaaaaaa", "charge": "0"} {
		values.Set(name, value)
	}
	target := p.as(p.Ada).post("/clusters", values).want(http.StatusSeeOther).location()
	request, err := p.store.Request(t.Context(), p.Ada, strings.TrimPrefix(target, "/clusters/"))
	if err != nil {
		t.Fatal(err)
	}
	if request.Owner.ID != p.Ada.ID || request.Team != "vision" || request.Charge.GiB != 16 || request.State != rayslice.StateApproved || request.ID == "aaaaaaaaaaaa" {
		t.Errorf("got %+v", request)
	}
}

// TestWhatFollowsNeedsNoName: quota and decision are told before the form has a name, and looking is no failure.
func TestWhatFollowsNeedsNoName(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada).with("HX-Request", "true")
	form := goodForm()
	form.Set("name", "")
	page := ada.post("/clusters/preview", form).want(http.StatusOK).page()
	if next := page.Find("#next").Text(); !strings.Contains(next, "approved at once") || page.Find("a[href='#f-name']").Length() != 1 {
		t.Errorf("what follows: %s", next)
	}
	if fresh := p.as(p.Ada).get("/clusters/new").page().Find("#next").Text(); !strings.Contains(fresh, "approved at once") {
		t.Errorf("a fresh form: %s", fresh)
	}
	form.Set("groups[0].workers", "100")
	if next := ada.post("/clusters/preview", form).want(http.StatusOK).page().Find("#next").Text(); !strings.Contains(next, "over the team's quota") {
		t.Errorf("over quota: %s", next)
	}
	form.Set("hours", "x")
	if next := ada.post("/clusters/preview", form).want(http.StatusUnprocessableEntity).page().Find("#next").Text(); !strings.Contains(next, "As soon as") {
		t.Errorf("without hours: %s", next)
	}
}

// TestPreviewForScripts is htmx's side of the preview: a fragment, and one that names the fields when the form is wrong.
func TestPreviewForScripts(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada).with("HX-Request", "true")
	good := ada.post("/clusters/preview", goodForm()).want(http.StatusOK).page()
	if good.Find("pre.yaml").Length() != 1 || good.Find("header").Length() != 0 {
		t.Errorf("want the fragment with the YAML and no page around it")
	}
	bad := goodForm()
	bad.Set("hours", "x")
	if n := ada.post("/clusters/preview", bad).want(http.StatusUnprocessableEntity).page().Find("a[href='#f-hours']").Length(); n != 1 {
		t.Errorf("%d links to the bad field, want 1", n)
	}
	if n := p.countRequests(); n != 0 {
		t.Errorf("%d requests were written", n)
	}
}

// TestAskAgain fills the form from an earlier request, which another team's cannot do.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(2, 8))
	page := p.as(p.Bob).get("/clusters/new?from=" + request.ID).want(http.StatusOK).page()
	if got, _ := page.Find("input[name='groups[0].workers']").Attr("value"); got != "2" {
		t.Errorf("workers %q, want 2", got)
	}
	if got, _ := page.Find("input[name='groups[0].size'][checked]").Attr("value"); got != "a10:8" {
		t.Errorf("size %q, want a10:8", got)
	}
	for _, from := range []string{request.ID, "aaaaaaaaaaaa", "%00", ""} {
		p.as(p.Sam).get("/clusters/new?from=" + from).want(http.StatusNotFound)
	}
}

// TestClosedPool is B020: a pool the nodes have closed is refused, whatever the form says.
func TestClosedPool(t *testing.T) {
	t.Parallel()
	p := open(t)
	err := p.store.SaveFleet(t.Context(), rayslice.System, rayslice.Fleet{Pools: []rayslice.PoolStatus{{Pool: "a10", Blocked: rayslice.Reason{Code: "mixed_units"}}}})
	if err != nil {
		t.Fatal(err)
	}
	page := p.as(p.Ada).post("/clusters", goodForm()).want(http.StatusUnprocessableEntity).page()
	if page.Find("#problem li").Length() != 1 {
		t.Errorf("want one bad field, got %q", page.Find("#problem").Text())
	}
	got := p.token(p.adaToken).postJSON("/api/v1/requests", goodBody).want(http.StatusUnprocessableEntity).problem()
	if len(got.Errors) != 1 || got.Errors[0].Field != "groups[0].pool" || got.Errors[0].Code != rayslice.CodePoolClosed {
		t.Errorf("got %+v", got.Errors)
	}
}

// TestListFilters narrows the list and names parameters that cannot be.
func TestListFilters(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada, cpu := p.as(p.Ada), storetest.Draft(1, 8)
	cpu.Groups[0].Slice = rayslice.Slice{}
	for _, name := range []string{"alpha", "beta", "gamma"} {
		cpu.Name = name
		p.create(p.Bob, cpu)
	}
	cpu.Name = "delta"
	stopped := p.create(p.Ada, cpu)
	if _, err := p.store.StopRequest(t.Context(), p.Ada, stopped.ID); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		"": 4, "?q=ALPHA": 1, "?q=a": 4, "?q=nothing": 0, "?state=stopping": 1, "?state=live": 4, "?state=approved": 3,
		"?team=vision": 4, "?mine=1": 1, "?limit=2": 2, "?state=stopped": 0,
	} {
		if n := ada.get("/clusters" + query).want(http.StatusOK).page().Find("table.clusters tbody tr").Length(); n != want {
			t.Errorf("%s: %d rows, want %d", query, n, want)
		}
	}
	for _, query := range []string{"state=no-such", "team=speech", "team=no-such", "q=" + strings.Repeat("x", 81), "q=%00", "q=%ff",
		"limit=0", "limit=201", "limit=x", "cursor=%00", "cursor=!!!", "cursor=" + strings.Repeat("x", 201), "mine=2"} {
		ada.get("/clusters?" + query).want(http.StatusUnprocessableEntity)
		field, _, _ := strings.Cut(query, "=")
		got := p.token(p.adaToken).get("/api/v1/requests?" + query).want(http.StatusUnprocessableEntity).problem()
		if len(got.Errors) != 1 || got.Errors[0].Field != field {
			t.Errorf("%s: got %+v", query, got.Errors)
		}
	}

	first := ada.get("/clusters?limit=3").want(http.StatusOK).page()
	next, _ := first.Find("nav.paging a").Attr("href")
	u, err := url.Parse(next)
	if err != nil || u.Query().Get("cursor") == "" || u.Query().Get("limit") != "3" {
		t.Fatalf("next page %q", next)
	}
	if n := ada.get(next).want(http.StatusOK).page().Find("table.clusters tbody tr").Length(); n != 1 {
		t.Errorf("%d rows on the second page, want 1", n)
	}
}
