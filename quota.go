package rayslice

// Charge is what a request costs its team: GiB of slices and whole cards, counted apart.
type Charge struct {
	GiB   int `json:"gib"`   // GiB of slices
	Cards int `json:"cards"` // whole cards
}

// Add returns the sum of both charges.
func (c Charge) Add(d Charge) Charge { return Charge{c.GiB + d.GiB, c.Cards + d.Cards} }

// Times returns the charge of n workers.
func (c Charge) Times(n int) Charge { return Charge{c.GiB * n, c.Cards * n} }

// Quota is a team's limit and what counts against it.
type Quota struct {
	Team  string `json:"team"`
	Limit Charge `json:"limit"`
	Used  Charge `json:"used"` // all live charges, held ones included
	Held  Charge `json:"held"` // the part of Used whose requests wait for a decision
}

// Left returns what can still be asked for; never negative, also when a limit was lowered below what is used.
func (q Quota) Left() Charge {
	return Charge{max(0, q.Limit.GiB-q.Used.GiB), max(0, q.Limit.Cards-q.Used.Cards)}
}

// Allow reports whether the team may hold n more: exactly up to the limit.
func (q Quota) Allow(n Charge) bool {
	left := q.Left()
	return n.GiB <= left.GiB && n.Cards <= left.Cards
}

// OverQuota returns the refusal with the numbers people need: limit, used, held, asked and what would fit.
func (q Quota) OverQuota(asked Charge) error {
	left := q.Left()
	return &Error{Kind: KindOverQuota, Code: "over_quota", Args: map[string]any{
		"team":      q.Team,
		"limit_gib": q.Limit.GiB, "used_gib": q.Used.GiB, "held_gib": q.Held.GiB, "asked_gib": asked.GiB, "left_gib": left.GiB,
		"limit_cards": q.Limit.Cards, "used_cards": q.Used.Cards, "held_cards": q.Held.Cards, "asked_cards": asked.Cards, "left_cards": left.Cards,
	}}
}
