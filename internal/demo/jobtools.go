package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// taskSupport says whether a call of a tool may, must or cannot be a task, as
// 2025-11-25 spells it.
type taskSupport string

const (
	taskOptional  taskSupport = "optional"
	taskRequired  taskSupport = "required"
	taskForbidden taskSupport = "forbidden"
)

// maxJobText bounds a text argument, in bytes, for jobs remember theirs.
const maxJobText = 1000

// jobTool is a tool of a job server.
type jobTool struct {
	name    string
	def     string // the list item, raw JSON, without execution
	support taskSupport
	// first is asked before there is a task, where the dialect can (MRTR); a
	// legacy task asks it first of all.
	first []jobQuestion
	// plan reads the arguments; its error is for the caller of the tool. own are
	// the jobs that the caller can see.
	plan func(own func() []jobView, args jsontext.Value) (work, error)
}

const noArguments = `"inputSchema":{"type":"object","additionalProperties":false}`

// jobText refuses what a job should not have to remember.
func jobText(name, s string) error {
	if s == "" || len(s) > maxJobText {
		return fmt.Errorf("%s has 1 to %d bytes", name, maxJobText)
	}
	return nil
}

func jobTools() []jobTool {
	return []jobTool{
		{
			name: "bake_cake", support: taskOptional,
			def: `{"name":"bake_cake","title":"Bake a cake","description":"Bake a cake; it takes about eight seconds and tells how far it is.",` +
				`"inputSchema":{"type":"object","properties":{"flavor":{"type":"string","description":"What it tastes of","examples":["lemon"]},"layers":{"type":"integer","minimum":1,"maximum":5,"default":2}},"required":["flavor"],"additionalProperties":false},` +
				`"outputSchema":{"type":"object","properties":{"cake":{"type":"string"},"layers":{"type":"integer"},"slices":{"type":"integer"}},"required":["cake","layers","slices"]},` +
				`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`,
			plan: planCake,
		},
		{
			name: "ship_order", support: taskRequired,
			def: `{"name":"ship_order","title":"Ship an order","description":"Pack an order, ask where it goes, and hand it to the carrier.",` +
				`"inputSchema":{"type":"object","properties":{"item":{"type":"string","examples":["teapot"]},"quantity":{"type":"integer","minimum":1,"maximum":100,"default":1}},"required":["item"],"additionalProperties":false},` +
				`"outputSchema":{"type":"object","properties":{"item":{"type":"string"},"quantity":{"type":"integer"},"street":{"type":"string"},"city":{"type":"string"},"carrier":{"type":"string"}},"required":["item","quantity","street","city","carrier"]},` +
				`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`,
			plan: planOrder,
		},
		{
			name: "flaky_job", support: taskOptional,
			def: `{"name":"flaky_job","title":"A job that fails","description":"Start something that does not work out, to see what a failure looks like.",` +
				`"inputSchema":{"type":"object","properties":{"how":{"type":"string","enum":["crash","error"],"default":"crash","description":"crash: the server fails; error: the tool says that it did not work"}},"additionalProperties":false},` +
				`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
			plan: planFlaky,
		},
		{
			name: "list_jobs", support: taskForbidden,
			def: `{"name":"list_jobs","title":"List jobs","description":"What is being worked on, and what has ended lately.",` + noArguments + `,` +
				`"outputSchema":{"type":"object","properties":{"jobs":{"type":"array","items":{"type":"object","properties":{"tool":{"type":"string"},"status":{"type":"string"},"message":{"type":"string"},"since":{"type":"string","format":"date-time"}},"required":["tool","status","since"]}}},"required":["jobs"]},` +
				`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`,
			plan: planList,
		},
	}
}

func planCake(_ func() []jobView, args jsontext.Value) (work, error) {
	in := struct {
		Flavor string `json:"flavor"`
		Layers int    `json:"layers"`
	}{Layers: 2}
	if err := decodeArguments(args, &in); err != nil {
		return work{}, err
	}
	if err := jobText("flavor", in.Flavor); err != nil {
		return work{}, err
	}
	if in.Layers < 1 || in.Layers > 5 {
		return work{}, errors.New("a cake has 1 to 5 layers")
	}
	return work{
		stages: []stage{
			{message: "weighing the flour", lasts: time.Second},
			{message: "mixing the batter", lasts: 2 * time.Second},
			{message: "baking", lasts: 4 * time.Second},
			{message: "icing", lasts: time.Second},
		},
		finish: func(map[string]jobAnswer) (any, error) {
			return struct {
				Cake   string `json:"cake"`
				Layers int    `json:"layers"`
				Slices int    `json:"slices"`
			}{in.Flavor + " cake", in.Layers, 8 * in.Layers}, nil
		},
	}, nil
}

// address is what ship_order asks for.
type address struct {
	Street string `json:"street"`
	City   string `json:"city"`
}

func readAddress(content jsontext.Value) (a address, err error) {
	if err := json.Unmarshal(content, &a); err != nil {
		return a, errors.New("an address has a street and a city")
	}
	return a, errors.Join(jobText("street", a.Street), jobText("city", a.City))
}

func planOrder(_ func() []jobView, args jsontext.Value) (work, error) {
	in := struct {
		Item     string `json:"item"`
		Quantity int    `json:"quantity"`
	}{Quantity: 1}
	if err := decodeArguments(args, &in); err != nil {
		return work{}, err
	}
	if err := jobText("item", in.Item); err != nil {
		return work{}, err
	}
	if in.Quantity < 1 || in.Quantity > 100 {
		return work{}, errors.New("ship 1 to 100 of an item")
	}
	return work{
		stages: []stage{
			{message: "packing", lasts: time.Second, asks: []jobQuestion{{
				name: "address", message: fmt.Sprintf("Where does your order go (%d of %s)?", in.Quantity, in.Item),
				schema: `{"type":"object","properties":{"street":{"type":"string","title":"Street and number","minLength":1},"city":{"type":"string","title":"City","minLength":1}},"required":["street","city"]}`,
				check:  func(content jsontext.Value) error { _, err := readAddress(content); return err },
			}}},
			{message: "handing over to the carrier", lasts: 2 * time.Second},
		},
		finish: func(answers map[string]jobAnswer) (any, error) {
			if !answers["address"].accepted() {
				return nil, errors.New("nothing was shipped: there is no address")
			}
			to, err := readAddress(answers["address"].Content)
			if err != nil {
				return nil, err
			}
			return struct {
				Item     string `json:"item"`
				Quantity int    `json:"quantity"`
				Street   string `json:"street"`
				City     string `json:"city"`
				Carrier  string `json:"carrier"`
			}{in.Item, in.Quantity, to.Street, to.City, "Slow & Steady"}, nil
		},
	}, nil
}

func planFlaky(_ func() []jobView, args jsontext.Value) (work, error) {
	in := struct {
		How string `json:"how"`
	}{How: "crash"}
	if err := decodeArguments(args, &in); err != nil {
		return work{}, err
	}
	if in.How != "crash" && in.How != "error" {
		return work{}, errors.New("how is crash or error")
	}
	return work{
		stages: []stage{{message: "warming up", lasts: time.Second}, {message: "making strange noises", lasts: 2 * time.Second}},
		finish: func(map[string]jobAnswer) (any, error) {
			if in.How == "error" {
				return nil, errors.New("the belt came off")
			}
			return nil, fault.New(fault.Internal, "the machine lost its power")
		},
	}, nil
}

// planList tells no ids: an id is all it takes to read a job, and a gateway
// between gives other ones.
func planList(own func() []jobView, args jsontext.Value) (work, error) {
	if err := decodeArguments(args, &struct{}{}); err != nil {
		return work{}, err
	}
	return work{finish: func(map[string]jobAnswer) (any, error) {
		type item struct {
			Tool    string `json:"tool"`
			Status  string `json:"status"`
			Message string `json:"message,omitzero"`
			Since   string `json:"since"`
		}
		out := struct {
			Jobs []item `json:"jobs"`
		}{[]item{}}
		for _, v := range own() {
			out.Jobs = append(out.Jobs, item{v.tool, v.state.String(), v.message, jobTime(v.created)})
		}
		return out, nil
	}}, nil
}

// jobTime is a time as the protocol spells it.
func jobTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
