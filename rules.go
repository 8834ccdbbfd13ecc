package rayslice

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Rules are what a team's leads and admins have set for its requests. The zero Rules let nothing start without a lead.
type Rules struct {
	Auto            Charge           `json:"auto"`             // a request up to this size …
	AutoHours       int              `json:"auto_hours"`       // … and for up to so many hours starts at once
	Member          *Charge          `json:"member"`           // most that one member may hold before a lead decides; nil = no such share
	MaxHours        int              `json:"max_hours"`        // longest lifetime, hours; 0 = the catalogue's
	EscalateMinutes int              `json:"escalate_minutes"` // admins are told when nobody decides for so long; 0 = never
	Sizes           map[string][]int `json:"sizes"`            // pool → GiB offered to the team; a pool that is not named offers what the catalogue does, an empty list nothing
	Unverified      bool             `json:"unverified"`       // clusters become ready without showing that their slices are enforced
	ImagePrefixes   []string         `json:"image_prefixes"`   // images the team may use start with one of these; none = the catalogue's rule
}

// Bounds of rules.
const (
	MaxEscalateMinutes = 7 * 24 * 60
	MaxImagePrefixes   = 20
)

// ReturnedLimit is how long a request that was asked back holds its quota while its owner does not answer.
const ReturnedLimit = 3 * 24 * time.Hour

// DefaultRules are those of a team that has set none: whatever its quota allows starts at once, for up to a week.
func DefaultRules() Rules {
	return Rules{Auto: Charge{GiB: MaxLimit, Cards: MaxLimit}, AutoHours: 7 * 24, EscalateMinutes: 4 * 60}
}

// Under returns the rules as they work under a limit: what starts at once is never more than that.
func (r Rules) Under(limit Charge) Rules {
	r.Auto = Charge{GiB: min(r.Auto.GiB, limit.GiB), Cards: min(r.Auto.Cards, limit.Cards)}
	return r
}

// Codes of why a request needs a lead; the sentences stand in the catalogues as reason_<code>. Args: asked and most.
const (
	ReasonNeedsLeadGiB   = "needs_lead_gib"   // more GiB than start at once
	ReasonNeedsLeadCards = "needs_lead_cards" // more whole cards than start at once
	ReasonNeedsLeadHours = "needs_lead_hours" // longer than what starts at once
	ReasonNeedsLeadShare = "needs_lead_share" // the member would hold more than their share; Args: held, asked, most, unit
)

// Codes of reasons that people give; Args: who.
const (
	ReasonApproved   = "approved_by"
	ReasonAskedBack  = "asked_back"
	ReasonRejected   = "rejected_by"
	ReasonUnanswered = "unanswered" // asked back, and not answered within ReturnedLimit; Args: hours
)

// Decide says whether a request starts at once (ReasonAutoApproved) or needs a lead, and why. held is what its owner's
// other requests hold in the team.
func (r Rules) Decide(d RequestDraft, held Charge) Reason {
	asked := d.Charge()
	needs := func(code string, asked, most int) Reason {
		return Reason{Code: code, Args: map[string]any{"asked": asked, "most": most}}
	}
	switch {
	case asked.GiB > r.Auto.GiB:
		return needs(ReasonNeedsLeadGiB, asked.GiB, r.Auto.GiB)
	case asked.Cards > r.Auto.Cards:
		return needs(ReasonNeedsLeadCards, asked.Cards, r.Auto.Cards)
	case d.Hours > r.AutoHours:
		return needs(ReasonNeedsLeadHours, d.Hours, r.AutoHours)
	}
	return r.decideShare(asked, held)
}

func (r Rules) decideShare(asked, held Charge) Reason {
	share := func(unit string, asked, held, most int) Reason {
		return Reason{Code: ReasonNeedsLeadShare, Args: map[string]any{"unit": unit, "asked": asked, "held": held, "most": most}}
	}
	switch {
	case r.Member == nil:
	case asked.GiB > 0 && held.GiB+asked.GiB > r.Member.GiB:
		return share("gib", asked.GiB, held.GiB, r.Member.GiB)
	case asked.Cards > 0 && held.Cards+asked.Cards > r.Member.Cards:
		return share("cards", asked.Cards, held.Cards, r.Member.Cards)
	}
	return Reason{Code: ReasonAutoApproved}
}

// CheckPurpose refuses a draft that somebody has to decide about and that does not say what it is for; why is what Decide
// said.
func (d RequestDraft) CheckPurpose(why Reason) error {
	if why.Code == ReasonAutoApproved || d.Purpose != "" {
		return nil
	}
	args := map[string]any{"why": why.Code}
	for name, value := range why.Args {
		args[name] = value
	}
	return Invalid(FieldError{Field: "purpose", Code: CodePurposeNeeded, Args: args})
}

// CodePurposeNeeded is the field code of a purpose that is missing where a lead has to decide; Args: why (the code of the
// reason) and that reason's own.
const CodePurposeNeeded = "purpose_needed"

// Check refuses what no lead of the team may grant either: a lifetime, a size or an image outside the rules. It names
// every bad field; nil when there is none.
func (r Rules) Check(d RequestDraft) error {
	v := &validation{}
	if r.MaxHours > 0 && d.Hours > r.MaxHours {
		v.bad("hours", CodeRange, map[string]any{"min": 1, "max": r.MaxHours})
	}
	for i, g := range d.Groups {
		if sizes, narrowed := r.Sizes[g.Pool]; narrowed && !g.IsZero() && !g.Whole() && !slices.Contains(sizes, g.GiB) {
			v.bad(groupField(i)+".slice_gib", CodeSizeNotOffered, map[string]any{"sizes": joinInts(sizes)})
		}
	}
	if len(r.ImagePrefixes) > 0 && !hasAnyPrefix(d.Image, r.ImagePrefixes) {
		v.bad("image", CodeImageNotAllowed, map[string]any{"prefixes": strings.Join(r.ImagePrefixes, ", ")})
	}
	return Invalid(v.fields...)
}

// Narrow returns the catalogue as the team may use it.
func (r Rules) Narrow(c Catalogue) Catalogue {
	if r.MaxHours > 0 {
		c.Limits.MaxHours = min(c.Limits.MaxHours, r.MaxHours)
	}
	c.Pools = slices.Clone(c.Pools)
	for i, p := range c.Pools {
		if sizes, narrowed := r.Sizes[p.Name]; narrowed && p.Mode.Sliced() {
			c.Pools[i].Sizes = slices.DeleteFunc(slices.Clone(p.Sizes), func(gib int) bool { return !slices.Contains(sizes, gib) })
		}
	}
	if len(r.ImagePrefixes) > 0 {
		c.Images = slices.DeleteFunc(slices.Clone(c.Images), func(m Image) bool { return !hasAnyPrefix(m.Ref, r.ImagePrefixes) })
		c.ImagePrefixes = r.ImagePrefixes
	}
	return c
}

// Validate checks rules against the catalogue and names every bad field; a pool or size that does not exist is refused
// with the list of those that do, because a rule about nothing limits nothing (HAMi#893).
func (r Rules) Validate(c Catalogue) error {
	v := &validation{}
	v.within("auto.gib", r.Auto.GiB, 0, MaxLimit)
	v.within("auto.cards", r.Auto.Cards, 0, MaxLimit)
	v.within("auto_hours", r.AutoHours, 0, c.Limits.MaxHours)
	if r.Member != nil {
		v.within("member.gib", r.Member.GiB, 0, MaxLimit)
		v.within("member.cards", r.Member.Cards, 0, MaxLimit)
	}
	v.within("max_hours", r.MaxHours, 0, c.Limits.MaxHours)
	v.within("escalate_minutes", r.EscalateMinutes, 0, MaxEscalateMinutes)
	v.ruleSizes(r.Sizes, c)
	if len(r.ImagePrefixes) > MaxImagePrefixes {
		v.bad("image_prefixes", CodeRange, map[string]any{"min": 0, "max": MaxImagePrefixes})
	}
	for _, p := range r.ImagePrefixes {
		if !imageRef.MatchString(p) {
			v.bad("image_prefixes", CodeCharacters, nil)
			break
		}
	}
	return Invalid(v.fields...)
}

func (v *validation) ruleSizes(sizes map[string][]int, c Catalogue) {
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		pool, known := c.Pool(name)
		if !known || !pool.Mode.Sliced() {
			v.bad("sizes."+name, CodePoolUnknown, map[string]any{"pools": poolNames(c)})
			continue
		}
		for _, gib := range sizes[name] {
			if !pool.Offers(gib) {
				v.bad("sizes."+name, CodeSizeNotOffered, map[string]any{"sizes": joinInts(pool.Sizes)})
				break
			}
		}
	}
}
