package peers

// Script is what a server is asked in the federation test: at least one call that succeeds, and every other kind of
// request that the server knows. No step needs anything from the client, and every answer is the same each time (but for
// the time of day in one of them, which the test knows of).
func (s Server) Script() []Step { return scripts[s.Name] }

var scripts = map[string][]Step{
	"gostateful":  goSteps,
	"gostateless": goSteps,
	"mcpgo":       append(conformanceSteps[:len(conformanceSteps):len(conformanceSteps)], completePrompt("test_prompt_with_arguments", "arg1", "")),
	"everything": {
		call("echo", map[string]any{"message": "\"quoted\" <b>&amp;</b> ünïcödé \u2028 9007199254740993"}),
		call("get-sum", map[string]any{"a": 1.5, "b": 1e21}),
		call("get-structured-content", map[string]any{"location": "Chicago"}),
		call("get-tiny-image", nil),
		call("get-sum", map[string]any{"a": "not a number"}),
		call("get-resource-links", map[string]any{"count": 3}),
		prompt("simple-prompt", nil),
		prompt("args-prompt", map[string]any{"city": "Zürich", "state": "ZH"}),
		read("demo://resource/static/document/features.md"),
		read("demo://resource/dynamic/text/7"),
		prompt("args-prompt", map[string]any{}),
		read("demo://resource/dynamic/text/0"),
		completePrompt("completable-prompt", "department", "S"),
		completeTemplate("demo://resource/dynamic/text/{resourceId}", "resourceId", "12"),
	},
	"tsv2": {
		call("add", map[string]any{"a": 40, "b": 2}),
		call("link", map[string]any{}),
		call("refuse", map[string]any{}),
		prompt("visit", map[string]any{"city": "Bergen"}),
		read("ts://notes/readme"),
		read("ts://city/Bremen"),
		completePrompt("visit", "city", "B"),
		completeTemplate("ts://city/{name}", "name", "Aa"),
	},
	"fastmcp": {
		call("reverse", map[string]any{"text": "stressed ü"}),
		call("shape", map[string]any{"width": 3, "height": 4}),
		call("refuse", map[string]any{}),
		call("reverse", map[string]any{"text": 1, "extra": true}),
		prompt("review", map[string]any{"code": "if (a < b) {}"}),
		prompt("review", map[string]any{}),
		read("fast://about"),
		read("fast://square/12"),
		completePrompt("review", "code", "g"),
		completeTemplate("fast://square/{number}", "number", "p"),
	},
}

var conformanceSteps = []Step{
	call("test_simple_text", map[string]any{}),
	call("test_image_content", nil),
	call("test_multiple_content_types", map[string]any{}),
	call("test_error_handling", map[string]any{}),
	prompt("test_simple_prompt", nil),
	prompt("test_prompt_with_arguments", map[string]any{"arg1": "one", "arg2": "zwei \"2\""}),
	prompt("test_prompt_with_embedded_resource", map[string]any{"resourceUri": "test://example"}),
	read("test://static-text"),
	read("test://static-binary"),
	read("test://template/a1/data"),
	completeTemplate("test://template/{id}/data", "id", "a"),
}

var goSteps = append(conformanceSteps[:len(conformanceSteps):len(conformanceSteps)],
	call("test_audio_content", map[string]any{}),
	completePrompt("test_prompt_with_arguments", "arg1", "par"),
)

func call(name string, arguments map[string]any) Step {
	params := map[string]any{"name": name}
	if arguments != nil {
		params["arguments"] = arguments
	}
	return Step{"tools/call", params}
}

func prompt(name string, arguments map[string]any) Step {
	params := map[string]any{"name": name}
	if arguments != nil {
		params["arguments"] = arguments
	}
	return Step{"prompts/get", params}
}

func read(uri string) Step { return Step{"resources/read", map[string]any{"uri": uri}} }

func completePrompt(name, argument, value string) Step {
	return complete(map[string]any{"type": "ref/prompt", "name": name}, argument, value)
}

func completeTemplate(uri, argument, value string) Step {
	return complete(map[string]any{"type": "ref/resource", "uri": uri}, argument, value)
}

func complete(ref map[string]any, argument, value string) Step {
	return Step{"completion/complete", map[string]any{"ref": ref, "argument": map[string]any{"name": argument, "value": value}}}
}
