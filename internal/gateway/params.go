package gateway

import (
	"net/http"
	"strings"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
)

// checkParams compares the Mcp-Param headers that a tool's schema declares with
// the arguments they repeat (checklist 23).
func checkParams(x *north.Exchange, params []catalog.HeaderParam) error {
	args := x.Msg.Arguments.Of(x.Msg.Raw)
	for i := range params {
		p := &params[i]
		name := http.CanonicalHeaderKey(mcp.HeaderParamPrefix + p.Header)
		values := x.Header[name]
		arg := at(args, p.Path)
		absent := len(arg) == 0 || string(arg) == "null"
		switch {
		case absent && len(values) == 0:
		case absent:
			return fault.New(fault.HeaderMismatch, "header %s is given, and params.arguments.%s is not", name, strings.Join(p.Path, "."))
		case len(values) != 1:
			return fault.New(fault.HeaderMismatch, "header %s must repeat params.arguments.%s once", name, strings.Join(p.Path, "."))
		default:
			if err := mcp.MatchParam(values[0], arg, p.Type); err != nil {
				return fault.Wrap(err, fault.HeaderMismatch, "header %s does not repeat params.arguments.%s", name, strings.Join(p.Path, "."))
			}
		}
	}
	return nil
}
