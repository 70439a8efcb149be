// The theme, light or dark: the system's, or the one chosen here.

const CHOICES = ["system", "light", "dark"];
const KEY = "hookgate-theme";

export function themed(button) {
  let choice = stored();
  const apply = () => {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
  };
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    keep(choice);
    apply();
  });
  apply();
}

function stored() {
  try {
    const found = localStorage.getItem(KEY);
    return CHOICES.includes(found) ? found : "system";
  } catch {
    return "system"; // a browser that keeps nothing
  }
}

function keep(choice) {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // without storage, the choice applies only to this page
  }
}
