package rayslice

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlausible(t *testing.T) {
	for name, tc := range map[string]struct {
		used, limit, percent *float64
		wantUsed, wantLimit  *int
		wantPercent          *float64
		wantDropped          int
	}{
		"all said":                  {percent(4329.7), percent(8373), percent(41), mib(4329), mib(8373), percent(41), 0},
		"nothing said":              {nil, nil, nil, nil, nil, nil, 0},
		"zero is a figure":          {percent(0), percent(8373), percent(0), mib(0), mib(8373), percent(0), 0},
		"B044 no card has that":     {percent(17592186044134), percent(8373), percent(41), nil, mib(8373), percent(41), 1},
		"B044 without a limit":      {percent(17592186044134), nil, nil, nil, nil, nil, 1},
		"more than the limit":       {percent(8374), percent(8373), nil, nil, mib(8373), nil, 1},
		"below zero":                {percent(-1), percent(8373), percent(-1), nil, mib(8373), nil, 2},
		"a limit of nothing":        {percent(0), percent(0), nil, mib(0), nil, nil, 1},
		"no numbers":                {percent(math.NaN()), percent(math.Inf(1)), percent(math.NaN()), nil, nil, nil, 3},
		"more than the whole":       {nil, nil, percent(214), nil, nil, nil, 1},
		"too large for an integer":  {percent(1e300), percent(1e300), percent(1e300), nil, nil, nil, 3},
		"the largest card in sight": {percent(MaxCardMiB), percent(MaxCardMiB), percent(100), mib(MaxCardMiB), mib(MaxCardMiB), percent(100), 0},
	} {
		t.Run(name, func(t *testing.T) {
			used, limit, share, dropped := Figures{tc.used, tc.limit, tc.percent}.Plausible()
			got := []any{used, limit, share, dropped}
			if diff := cmp.Diff([]any{tc.wantUsed, tc.wantLimit, tc.wantPercent, tc.wantDropped}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMemoryGrade(t *testing.T) {
	a10 := Pool{Name: "a10", CardGiB: 22, CardMiB: 23028}
	slice := func(gib int) Slice { return Slice{Pool: "a10", GiB: gib, Cards: 1} }
	for name, tc := range map[string]struct {
		slice Slice
		pool  Pool
		card  int
		total *int
		want  Grade
	}{
		"a slice behind its wall":         {slice(8), a10, 23028, mib(8373), GradeSlice},
		"the card's size is not known":    {slice(8), a10, 0, mib(8373), GradeSlice},
		"the pool is not known either":    {slice(8), Pool{}, 0, mib(8192), GradeSlice},
		"share mode shows the whole card": {slice(8), a10, 23028, mib(23028), GradeCard},
		"no wall, size not known":         {slice(8), a10, 0, mib(23028), GradeCard},
		"a wall elsewhere":                {slice(8), a10, 23028, mib(4186), GradeSlice},
		"a slice as large as the card":    {slice(22), a10, 23028, mib(23028), GradeSlice},
		"a whole card":                    {Slice{Pool: "a100", Cards: 1}, Pool{Name: "a100"}, 81920, mib(81920), GradeSlice},
		"the source names no size":        {slice(8), a10, 23028, nil, GradeCard},
	} {
		if got := MemoryGrade(tc.slice, tc.pool, tc.card, tc.total); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestUtilisationGrade(t *testing.T) {
	if got := UtilisationGrade(Slice{Pool: "a10", GiB: 8, Cards: 1}); got != GradeCard {
		t.Errorf("in a slice: %s", got)
	}
	if got := UtilisationGrade(Slice{Pool: "a100", Cards: 1}); got != GradeSlice {
		t.Errorf("on a whole card: %s", got)
	}
}
