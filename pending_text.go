package rayslice

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// QuotaName is the name of the ResourceQuota that the portal keeps in a team's namespace.
const QuotaName = "rayslice"

var (
	quotaExceeded = regexp.MustCompile(`exceeded quota: ([^,]+), requested: (.+), used: (.+), limited: (\S+)`)
	quotaFailed   = regexp.MustCompile(`failed quota: [^:]+: (.+)`)
	forbidden     = regexp.MustCompile(`is forbidden: (.+)`)
	webhookDenied = regexp.MustCompile(`admission webhook "[^"]+" denied the request: (.+)`)
	noRight       = regexp.MustCompile(`User "[^"]*" cannot `)
)

// ReadRefusal reads the API server's refusal out of text on one line, whether it was given to us or to KubeRay. What it
// cannot read gets the code otherwise, with the text as detail.
func ReadRefusal(text, otherwise string) Reason {
	if m := quotaExceeded.FindStringSubmatch(text); m != nil {
		return quotaReason(m[1], m[2], m[3], m[4])
	}
	if noRight.MatchString(text) {
		return Reason{Code: ReasonNotPermitted}
	}
	for _, rule := range []*regexp.Regexp{quotaFailed, forbidden, webhookDenied} {
		if m := rule.FindStringSubmatch(text); m != nil {
			return Reason{Code: ReasonNamespaceRule, Detail: m[1]}
		}
	}
	return Reason{Code: otherwise, Detail: text}
}

// quotaReason takes the first resource of "a=1,b=2" lists; Kubernetes lists only those that are exceeded.
func quotaReason(quota, requested, used, limited string) Reason {
	first, _, _ := strings.Cut(requested, ",")
	resource, asked, _ := strings.Cut(first, "=")
	code := ReasonNamespaceQuota
	if quota == QuotaName {
		code = ReasonTeamQuotaFull
	}
	return Reason{Code: code, Args: map[string]any{
		"quota":     quota,
		"resource":  resource,
		"requested": asked,
		"used":      valueOf(used, resource),
		"limited":   valueOf(limited, resource),
	}}
}

func valueOf(list, resource string) string {
	for entry := range strings.SplitSeq(list, ",") {
		if value, ok := strings.CutPrefix(entry, resource+"="); ok {
			return value
		}
	}
	return "?"
}

// ReadCardText recognises, by their texts, the failures of the share scheduler, of its device plugin and of the driver, which
// turn up in events, in conditions and in the states of containers (domain facts A.3, C.7); zero for any other text. Detail
// is the text as given.
func ReadCardText(text string) Reason {
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(lower, "no-gpu-has-"):
		return Reason{Code: ReasonCardRace, Detail: text}
	case strings.Contains(lower, "no assume timestamp"):
		return Reason{Code: ReasonShareUnplaced, Detail: text}
	case strings.Contains(lower, "failed to initialize nvml"):
		return Reason{Code: ReasonNVMLLost, Detail: text}
	}
	return Reason{}
}

// ReadEvent says what a warning is about. What it does not know becomes ReasonWarning with Kubernetes' word and text.
func ReadEvent(e Event) Reason {
	if reason := ReadCardText(e.Message); !reason.IsZero() {
		return reason
	}
	lower := strings.ToLower(e.Message)
	switch {
	case strings.HasPrefix(e.Reason, "InvalidRayCluster"):
		return Reason{Code: ReasonInvalidSpec, Detail: e.Message}
	case e.Reason == "FailedScheduling":
		return Reason{Code: ReasonUnschedulable, Detail: e.Message}
	case e.Reason == "FailedMount", e.Reason == "FailedAttachVolume":
		return Reason{Code: ReasonVolume, Detail: e.Message}
	case e.Reason == "OOMKilling":
		return Reason{Code: ReasonOOMKilled, Detail: e.Message}
	case e.Reason == "Evicted":
		return Reason{Code: ReasonEvicted, Detail: e.Message}
	case e.Reason == "FailedCreatePodSandBox":
		return Reason{Code: ReasonContainerFailed, Args: map[string]any{"what": e.Reason}, Detail: e.Message}
	case (e.Reason == "Failed" || e.Reason == "BackOff" || e.Reason == "InspectFailed") && strings.Contains(lower, "image"):
		return Reason{Code: ReasonImagePull, Detail: e.Message}
	}
	otherwise := ReasonWarning
	if strings.HasPrefix(e.Reason, "FailedCreate") || strings.HasPrefix(e.Reason, "FailedToCreate") {
		otherwise = ReasonCreateFailed
	}
	reason := ReadRefusal(e.Message, otherwise)
	if reason.Code == ReasonWarning {
		reason.Args = map[string]any{"event": e.Reason}
	}
	return reason
}

var (
	nodesAvailable = regexp.MustCompile(`^\d+/\d+ nodes are available:? ?`)
	nodesPart      = regexp.MustCompile(`^(\d+) (.+)$`)
	nextPart       = regexp.MustCompile(`, (\d+ )`)
	preemption     = regexp.MustCompile(`[.,]? *preemption: .*$`)
	insufficient   = regexp.MustCompile(`^(?:node\(s\) (?:had |didn't have )?)?(?i:insufficient) (\S+)$`)
)

// schedulerTexts are what schedulers say of nodes: Kubernetes' own words, and those of ACK's share scheduler (domain facts 0,
// A.2). The first that the text contains, in lower case, counts.
var schedulerTexts = []struct{ text, code string }{
	{"gpu memory in one device", ReasonRoomCard},
	{"gpu memory on one device", ReasonRoomCard},
	{"gpu core in one device", ReasonRoomCore},
	{"gpu core on one device", ReasonRoomCore},
	{"pods per gpu device has reached", ReasonRoomPods},
	{"gpu resources are not matched", ReasonNodesKind},
	{"gpu resource types should be consistent", ReasonMixedKinds},
	{"node affinity/selector", ReasonNodesOther},
	{"node affinity", ReasonNodesOther},
	{"node selector", ReasonNodesOther},
	{"untolerated taint", ReasonNodesTainted},
	{"were unschedulable", ReasonNodesClosed},
	{"anti-affinity", ReasonNodesSpread},
	{"topology spread", ReasonNodesSpread},
	{"volume", ReasonNodesVolume},
	{"persistentvolumeclaim", ReasonNodesVolume},
	{"too many pods", ReasonRoomOther},
	{"no nodes available", ReasonNoNodes},
	{"scheduling gates", ReasonGated},
}

// resourceCodes are the codes of "Insufficient <resource>".
var resourceCodes = map[string]string{
	"aliyun.com/gpu-mem":             ReasonRoomNode,
	"aliyun.com/gpu-core.percentage": ReasonRoomCore,
	"nvidia.com/gpu":                 ReasonRoomCards,
	"cpu":                            ReasonRoomCPU,
	"memory":                         ReasonRoomMemory,
}

// ReadUnschedulable takes a scheduler's message apart, "0/6 nodes are available: 3 Insufficient aliyun.com/gpu-mem, 2 node(s)
// had untolerated taint {…}", into one reason per group of nodes. Each keeps its part of the text; there is always one.
func ReadUnschedulable(text string) []Reason {
	if reason := ReadCardText(text); !reason.IsZero() {
		return []Reason{reason}
	}
	body := preemption.ReplaceAllString(nodesAvailable.ReplaceAllString(text, ""), "")
	body = strings.TrimSuffix(strings.TrimSpace(body), ".")
	if body == "" {
		return []Reason{{Code: ReasonUnschedulable, Detail: text}}
	}
	var parts []Reason
	for part := range strings.SplitSeq(nextPart.ReplaceAllString(body, "\n$1"), "\n") {
		parts = append(parts, readNodes(strings.TrimSuffix(part, ".")))
	}
	if len(parts) == 1 && parts[0].Code == ReasonNodesUnknown { // nothing could be made of it: the whole text says more
		return []Reason{{Code: ReasonUnschedulable, Detail: text}}
	}
	return parts
}

func readNodes(part string) Reason {
	reason := Reason{Code: ReasonNodesUnknown, Args: map[string]any{}, Detail: part}
	if m := nodesPart.FindStringSubmatch(part); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			reason.Args["nodes"] = n
		}
		part = m[2]
	}
	lower := strings.ToLower(part)
	for _, known := range schedulerTexts {
		if strings.Contains(lower, known.text) {
			reason.Code = known.code
			if known.code == ReasonRoomOther {
				reason.Args["resource"] = "pods"
			}
			return reason
		}
	}
	if m := insufficient.FindStringSubmatch(part); m != nil {
		code, ok := resourceCodes[m[1]]
		if !ok {
			code = ReasonRoomOther
			reason.Args["resource"] = m[1]
		}
		reason.Code = code
	}
	return reason
}

// WithoutPod returns the reason without the name of the pod, for where it stands beside the pod or speaks of several.
func (r Reason) WithoutPod() Reason {
	r.Args = maps.Clone(r.Args)
	delete(r.Args, "pod")
	return r
}
