/* Starts the page. Browsers drop what they are fetching when a network interface of their machine comes or goes,
 * and each pod that starts on this machine brings one: then the page is loaded anew, a few times at most. */
(() => {
  const script = document.currentScript, TRIES = 5;
  const tries = () => +(sessionStorage.getItem('boot') || 0);
  import(new URL('app.js', script.src).href).then(() => sessionStorage.removeItem('boot'), (e) => {
    if (tries() < TRIES) {
      sessionStorage.setItem('boot', tries() + 1);
      setTimeout(() => location.reload(), 150 * tries());
    } else {
      sessionStorage.removeItem('boot');
      document.getElementById('main').textContent = `The page could not be loaded: ${e.message}. Reload to try again.`;
    }
  });
})();
