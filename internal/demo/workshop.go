package demo

import (
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// stock is how many of each part every visit starts with.
var stock = map[string]int{"bolt": 120, "gear": 12, "hinge": 8, "screw": 400, "spring": 30}

// Workshop returns a workshop that speaks the revisions with sessions, 2025-03-26
// to 2025-11-25: convert units, roll dice, take parts. What a client takes is
// taken in its session alone. Each call returns a workshop of its own.
func Workshop() http.Handler {
	return &legacy{offer: &offer{
		info:         `{"name":"workshop","title":"Maker Workshop","version":"1.0.0","description":"Tools and parts for small projects."}`,
		instructions: "Parts that you take are yours until the session ends.",
		tools:        workshopTools(),
		prompts: []prompt{{
			name:     "plan_project",
			def:      `{"name":"plan_project","title":"Plan a project","description":"Steps and parts for something to build.","arguments":[{"name":"project","title":"Project","description":"What to build","required":true},{"name":"hours","description":"How much time there is"}]}`,
			required: []string{"project"},
			write: func(args map[string]string) string {
				out := fmt.Sprintf("Plan how to build a %s in the workshop. List the steps and the parts to take.", args["project"])
				if hours := args["hours"]; hours != "" {
					out += fmt.Sprintf(" There are %s hours.", hours)
				}
				return out
			},
			complete: map[string]func() []string{"project": func() []string { return []string{"birdhouse", "bookshelf", "box", "clock", "lamp"} }},
		}},
		resources: []resource{{
			uri: "workshop://safety", mime: "text/markdown",
			def: `{"uri":"workshop://safety","name":"safety","title":"Safety","description":"Read before you switch anything on.","mimeType":"text/markdown","annotations":{"audience":["user"],"priority":1.0}}`,
			read: func() string {
				return "# Safety\n\n- Wear goggles.\n- Unplug before you change a blade.\n- Sweep when you are done.\n"
			},
		}},
		templates: []template{{
			pattern: "workshop://parts/{part}", prefix: "workshop://parts/", variable: "part", mime: "text/plain",
			def: `{"uriTemplate":"workshop://parts/{part}","name":"part","title":"One part","description":"How many of a part there are.","mimeType":"text/plain"}`,
			read: func(part string) (string, bool) {
				n, ok := stock[part]
				return fmt.Sprintf("%s: %d in every box\n", part, n), ok
			},
			complete: partNames,
		}},
	}}
}

func partNames() []string {
	var out []string
	for name := range stock {
		out = append(out, name)
	}
	return out
}

// inventory is what a session sees of the parts.
type inventory struct {
	Calls int            `json:"calls"` // of tools that touch parts, in this session
	Left  map[string]int `json:"left"`
	Taken map[string]int `json:"taken"`
}

const inventorySchema = `{"type":"object","properties":{"calls":{"type":"integer","description":"Calls about parts in this session"},` +
	`"left":{"type":"object","additionalProperties":{"type":"integer"}},"taken":{"type":"object","additionalProperties":{"type":"integer"}}},"required":["calls","left","taken"]}`

// take moves n of a part to the session; no part only looks.
func (s *session) take(part string, n int) (*inventory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if part != "" {
		have, ok := stock[part]
		if !ok {
			return nil, fmt.Errorf("no part %q; inventory lists them", part)
		}
		if left := have - s.taken[part]; n < 1 || n > left {
			return nil, fmt.Errorf("take between 1 and %d of %q", left, part)
		}
		s.taken[part] += n
	}
	out := &inventory{Calls: s.calls, Left: map[string]int{}, Taken: map[string]int{}}
	for name, have := range stock {
		out.Left[name] = have - s.taken[name]
		if s.taken[name] > 0 {
			out.Taken[name] = s.taken[name]
		}
	}
	return out, nil
}

func workshopTools() []tool {
	return []tool{
		{
			name: "convert_units",
			def: `{"name":"convert_units","title":"Convert units","description":"Convert lengths, masses and temperatures.",` +
				`"inputSchema":{"type":"object","properties":{"value":{"type":"number"},"from":{"type":"string","examples":["in"]},"to":{"type":"string","examples":["cm"]}},"required":["value","from","to"],"additionalProperties":false},` +
				`"outputSchema":{"type":"object","properties":{"value":{"type":"number"},"unit":{"type":"string"}},"required":["value","unit"]},` +
				`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
			run: func(_ *session, args jsontext.Value) (any, error) {
				var in struct {
					Value float64 `json:"value"`
					From  string  `json:"from"`
					To    string  `json:"to"`
				}
				if err := decodeArguments(args, &in); err != nil {
					return nil, err
				}
				v, err := convert(in.Value, in.From, in.To)
				if err != nil {
					return nil, err
				}
				return struct {
					Value float64 `json:"value"`
					Unit  string  `json:"unit"`
				}{v, in.To}, nil
			},
		},
		{
			name: "roll_dice",
			def: `{"name":"roll_dice","title":"Roll dice","description":"Roll dice and add them up.",` +
				`"inputSchema":{"type":"object","properties":{"count":{"type":"integer","minimum":1,"maximum":100,"default":1},"sides":{"type":"integer","minimum":2,"maximum":1000,"default":6}},"additionalProperties":false},` +
				`"outputSchema":{"type":"object","properties":{"rolls":{"type":"array","items":{"type":"integer"}},"total":{"type":"integer"}},"required":["rolls","total"]},` +
				`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
			run: func(_ *session, args jsontext.Value) (any, error) {
				in := struct {
					Count int `json:"count"`
					Sides int `json:"sides"`
				}{1, 6}
				if err := decodeArguments(args, &in); err != nil {
					return nil, err
				}
				if in.Count < 1 || in.Count > 100 || in.Sides < 2 || in.Sides > 1000 {
					return nil, fmt.Errorf("roll 1 to 100 dice of 2 to 1000 sides")
				}
				var out struct {
					Rolls []int `json:"rolls"`
					Total int   `json:"total"`
				}
				for range in.Count {
					n := rand.IntN(in.Sides) + 1
					out.Rolls = append(out.Rolls, n)
					out.Total += n
				}
				return out, nil
			},
		},
		{
			name: "inventory",
			def: `{"name":"inventory","title":"Inventory","description":"Which parts are left, and which you took in this session.",` +
				`"inputSchema":{"type":"object","additionalProperties":false},"outputSchema":` + inventorySchema + `,` +
				`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
			run: func(s *session, args jsontext.Value) (any, error) {
				if err := decodeArguments(args, &struct{}{}); err != nil {
					return nil, err
				}
				return s.take("", 0)
			},
		},
		{
			name: "take_part",
			def: `{"name":"take_part","title":"Take parts","description":"Take parts out of the box for this session.",` +
				`"inputSchema":{"type":"object","properties":{"part":{"type":"string","examples":["gear"]},"count":{"type":"integer","minimum":1,"default":1}},"required":["part"],"additionalProperties":false},` +
				`"outputSchema":` + inventorySchema + `,` +
				`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`,
			run: func(s *session, args jsontext.Value) (any, error) {
				in := struct {
					Part  string `json:"part"`
					Count int    `json:"count"`
				}{Count: 1}
				if err := decodeArguments(args, &in); err != nil {
					return nil, err
				}
				if in.Part == "" {
					return nil, fmt.Errorf("name the part to take")
				}
				return s.take(in.Part, in.Count)
			},
		},
	}
}
