package config

// Toggle is a switch: on and true mean the same, and so do off and false.
type Toggle bool

// On tells whether the switch is on.
func (t Toggle) On() bool { return bool(t) }

// String is "on" or "off".
func (t Toggle) String() string {
	if t {
		return "on"
	}
	return "off"
}

func (Toggle) form() form {
	return form{what: "on, off, true or false", pattern: "^(on|off|true|false)$", boolean: true}
}

func (t *Toggle) set(text string) error {
	switch text {
	case "on", "true":
		*t = true
	case "off", "false":
		*t = false
	default:
		return errForm
	}
	return nil
}
