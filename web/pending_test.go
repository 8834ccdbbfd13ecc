package web

import (
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

func TestPendingSentence(t *testing.T) {
	since := sampleTime.Add(-7 * time.Minute)
	room := rayslice.Condition{Reason: rayslice.Reason{Code: rayslice.ReasonRoomCard, Args: Args{"nodes": 2}}, Pods: 1}
	busy := rayslice.Condition{Reason: rayslice.Reason{Code: rayslice.ReasonOperatorBusy, Args: Args{"idle": 240, "seconds": 3}}}
	cases := map[string]struct {
		pending rayslice.Pending
		en, zh  string
	}{
		"nothing":      {rayslice.Pending{}, "", ""},
		"no condition": {rayslice.Pending{Stage: rayslice.StageCreate}, "Waits to be created in Kubernetes.", "等待在 Kubernetes 中创建。"},
		"one condition": {rayslice.Pending{Stage: rayslice.StageWorkers, Since: since, Have: 1, Want: 2, Conditions: []rayslice.Condition{room}},
			"Waits for its workers; 1 of 2 are ready, for 7 min now: No single card has enough free GPU memory (nodes: 2).",
			"等待 Worker；1 / 2 个已就绪，已等待 7 分钟：没有单张显卡有足够的空闲显存（节点数：2）。"},
		"B098 two conditions": {rayslice.Pending{Stage: rayslice.StageOperator, Conditions: []rayslice.Condition{busy, room}},
			"Waits for KubeRay to make its pods: KubeRay is busy with other clusters: it made a pod 3 s ago, and has not gone on with this one for 240 s. No single card has enough free GPU memory (nodes: 2).",
			"等待 KubeRay 创建 Pod：KubeRay 正忙于其他集群：3 秒前刚创建过 Pod，但已有 240 秒没有处理此集群。 没有单张显卡有足够的空闲显存（节点数：2）。"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PendingText(NewLocalizer("en"), tc.pending, sampleTime); got != tc.en {
				t.Errorf("en: %q, want %q", got, tc.en)
			}
			if got := PendingText(NewLocalizer("zh-CN"), tc.pending, sampleTime); got != tc.zh {
				t.Errorf("zh-CN: %q, want %q", got, tc.zh)
			}
		})
	}
}

// TestPageSaysWhatItWaitsFor: several conditions, each with what to do and who can, and the attempts below.
func TestPageSaysWhatItWaitsFor(t *testing.T) {
	page := sample(t, "request-waiting-many")
	if got := page.Find("#going-on .unmet > li").Length(); got != 6 {
		t.Errorf("%d conditions", got)
	}
	full := page.Find(`#going-on li[data-code="team_quota_full"]`)
	if text := full.Text(); !strings.Contains(text, "used 72, limit 72") || !strings.Contains(text, "a lead") {
		t.Errorf("the quota's condition says %q", text)
	}
	if text := page.Find(`#going-on li[data-code="room_card"]`).Text(); !strings.Contains(text, "(nodes: 2)") || !strings.Contains(text, "2 pods") || !strings.Contains(text, "whoever asked") {
		t.Errorf("the card's condition says %q", text)
	}
	rows := page.Find("#attempts ~ table tbody tr")
	if rows.Length() != 3 || !strings.Contains(rows.Eq(1).Text(), "31 times") || rows.Eq(1).Find("time").Length() != 2 {
		t.Errorf("%d attempts; the second says %q", rows.Length(), rows.Eq(1).Text())
	}
}

func TestWhatIsUnknownIsShownAndHarmless(t *testing.T) {
	page := sample(t, "request-waiting-hostile")
	if page.Find("main script:not([src]), main img[src=x]").Length() != 0 || !strings.Contains(page.Find("#going-on .detail").Text(), "<script>alert(1)</script>") {
		t.Errorf("what nobody knows became %q", page.Find("#going-on").Text())
	}
	long := sample(t, "request-waiting-long").Find("#going-on .detail").Text()
	if n := len([]rune(long)); n != maxDetail+2 || !strings.HasSuffix(long, " …") {
		t.Errorf("%d characters of a long text", n)
	}
}

func TestListSaysInOneLineWhatARequestWaitsFor(t *testing.T) {
	row := SampleRow(sampleTime, rayslice.StateProvisioning)
	p := RequestPage{Frame: SampleFrame(NewLocalizer("en"), "/", sampleTime), Request: row.Request, Cluster: row.Cluster}
	unschedulable(&p)
	frame := p.Frame
	page := render(t, ClusterRows(ClusterList{Frame: frame, Rows: []ClusterRow{{Request: p.Request, Cluster: p.Cluster}}}))
	if got := page.Find("td .sub.pending").Text(); !strings.HasPrefix(strings.TrimSpace(got), "No single card has enough free GPU memory (nodes: 3). (and 2 more reasons)") {
		t.Errorf("the row says %q", got)
	}
	if page.Find("td .sub.pending time").Length() != 1 {
		t.Error("the row does not say since when")
	}
}
