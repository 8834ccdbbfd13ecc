package rayslice

// Party is who can do something about a condition.
type Party string

// Who can do something; the words stand in the catalogues as who_<party>.
const (
	PartyNobody Party = ""      // it goes on by itself, or somebody else's decision is waited for
	PartyOwner  Party = "owner" // whoever asked
	PartyLead   Party = "lead"  // a lead of the team
	PartyAdmin  Party = "admin" // whoever runs the portal or Kubernetes
)

// Parties returns everybody who can do something.
func Parties() []Party { return []Party{PartyOwner, PartyLead, PartyAdmin} }

// Next is what to do about a condition.
type Next string

// What to do; the sentences stand in the catalogues as todo_<next>.
const (
	NextWait      Next = "wait"      // nothing: it goes on by itself
	NextRoom      Next = "room"      // wait for room, or ask for less
	NextImage     Next = "image"     // mend the image's name or the pull secret
	NextMemory    Next = "memory"    // ask for more main memory
	NextLog       Next = "log"       // look at the container's log
	NextAgain     Next = "again"     // stop it and ask again
	NextDecide    Next = "decide"    // decide about it
	NextAnswer    Next = "answer"    // answer the lead
	NextTeamQuota Next = "team_full" // stop something of the team's, or wait for what is going
	NextQuota     Next = "quota"     // raise the namespace's quota
	NextRule      Next = "rule"      // look at the namespace's rules
	NextRights    Next = "rights"    // give rights
	NextNamespace Next = "namespace" // make the namespace
	NextKubeRay   Next = "kuberay"   // install, update or restart KubeRay
	NextScheduler Next = "scheduler" // look at the share scheduler and the device plugin
	NextNodes     Next = "nodes"     // look at the nodes
	NextVolume    Next = "volume"    // look at the volume
	NextRemove    Next = "remove"    // remove what is in the way
	NextResume    Next = "resume"    // resume it in Kubernetes
	NextShow      Next = "show"      // show this to somebody who can read it
)

// Nexts returns every next step.
func Nexts() []Next {
	return []Next{NextWait, NextRoom, NextImage, NextMemory, NextLog, NextAgain, NextDecide, NextAnswer, NextTeamQuota, NextQuota, NextRule,
		NextRights, NextNamespace, NextKubeRay, NextScheduler, NextNodes, NextVolume, NextRemove, NextResume, NextShow}
}

type advised struct {
	next Next
	who  Party
}

// steps says what to do about each reason, and who can. What is not named here is for an administrator to read.
var steps = map[string]advised{
	ReasonNeedsLeadGiB:   {NextDecide, PartyLead},
	ReasonNeedsLeadCards: {NextDecide, PartyLead},
	ReasonNeedsLeadHours: {NextDecide, PartyLead},
	ReasonNeedsLeadShare: {NextDecide, PartyLead},
	ReasonAskedBack:      {NextAnswer, PartyOwner},

	ReasonNamespaceQuota:   {NextQuota, PartyAdmin},
	ReasonTeamQuotaFull:    {NextTeamQuota, PartyLead},
	ReasonNamespaceRule:    {NextRule, PartyAdmin},
	ReasonNamespaceMissing: {NextNamespace, PartyAdmin},
	ReasonNotPermitted:     {NextRights, PartyAdmin},
	ReasonApplyFailed:      {NextWait, PartyNobody},
	ReasonKubeRayMissing:   {NextKubeRay, PartyAdmin},
	ReasonKubeRayVersion:   {NextKubeRay, PartyAdmin},
	ReasonOperatorSilent:   {NextKubeRay, PartyAdmin},
	ReasonOperatorBusy:     {NextWait, PartyNobody},
	ReasonDeletingSlow:     {NextRemove, PartyAdmin},
	ReasonNameTaken:        {NextRemove, PartyAdmin},
	ReasonPodsRemain:       {NextWait, PartyNobody},
	ReasonSuspended:        {NextResume, PartyAdmin},
	ReasonInvalidSpec:      {NextAgain, PartyOwner},
	ReasonHeadMute:         {NextLog, PartyOwner},
	ReasonHeadSilent:       {NextLog, PartyOwner},
	ReasonHeadCondition:    {NextWait, PartyNobody},
	ReasonHeadLost:         {NextWait, PartyNobody},
	ReasonWorkersLost:      {NextWait, PartyNobody},

	ReasonShareUnplaced:    {NextScheduler, PartyAdmin},
	ReasonNoShareScheduler: {NextScheduler, PartyAdmin},
	ReasonCardRace:         {NextAgain, PartyOwner},
	ReasonNVMLLost:         {NextAgain, PartyOwner},
	ReasonImagePull:        {NextImage, PartyOwner},
	ReasonOOMKilled:        {NextMemory, PartyOwner},
	ReasonCrashLoop:        {NextLog, PartyOwner},
	ReasonContainerExited:  {NextLog, PartyOwner},
	ReasonEvicted:          {NextWait, PartyNobody},
	ReasonVolume:           {NextVolume, PartyAdmin},

	ReasonUnschedulable: {NextRoom, PartyOwner},
	ReasonRoomNode:      {NextRoom, PartyOwner},
	ReasonRoomCard:      {NextRoom, PartyOwner},
	ReasonRoomCore:      {NextRoom, PartyOwner},
	ReasonRoomPods:      {NextRoom, PartyOwner},
	ReasonRoomCards:     {NextRoom, PartyOwner},
	ReasonRoomCPU:       {NextRoom, PartyOwner},
	ReasonRoomMemory:    {NextRoom, PartyOwner},
	ReasonRoomOther:     {NextRoom, PartyOwner},
	ReasonNodesOther:    {NextWait, PartyNobody},
	ReasonNodesSpread:   {NextRoom, PartyOwner},
	ReasonNodesKind:     {NextNodes, PartyAdmin},
	ReasonNodesTainted:  {NextNodes, PartyAdmin},
	ReasonNodesClosed:   {NextNodes, PartyAdmin},
	ReasonNoNodes:       {NextNodes, PartyAdmin},
	ReasonNodesVolume:   {NextVolume, PartyAdmin},
}

// advice returns what to do about a reason, and who can.
func advice(reason Reason) (Next, Party) {
	if s, ok := steps[reason.Code]; ok {
		return s.next, s.who
	}
	return NextShow, PartyAdmin
}
